"""Following one turn from a terminal: show what happens, put open items to the person, say how to go on.

`run`, `approvals approve`, `questions answer` and `turns follow` all end here. A turn never depends on being followed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import orjson

from engine.runtime import Runtime
from engine.views import OpenItem
from loopengine.cli import asking, exits
from loopengine.cli.deployment import Deployment, deployed, load_settings, opened
from loopengine.cli.local_worker import LocalWorker
from loopengine.cli.narration import Narrator
from loopengine.cli.options import Where
from loopengine.cli.streams import Output, say
from protocol.errors import AlreadyDecided, InvalidRequest, ItemClosed, ItemExpired, NotFound, TurnGone

PENDING = ("approval:pending", "question:pending")
_LOOK_S = 0.2


class Conversation:
    """One command's way through a turn. Its methods answer the exit code."""

    def __init__(
        self, runtime: Runtime, worker: LocalWorker, tenant: str, output: Output, *, as_json: bool, where: Where
    ) -> None:
        self.runtime = runtime
        self.tenant = tenant
        self.turn_id: str | None = None
        self.worker = worker
        self._output = output
        self._as_json = as_json
        self.where = where
        self._narrator = Narrator()

    async def follow(self, turn_id: str, after: int = 0) -> int:
        """Show the events behind number ``after`` until the turn is done or waits for a person who is not here."""
        self.turn_id = turn_id
        self.worker.watch(self.tenant, turn_id)
        try:
            code = await self._get_to_its_turn(turn_id, after)
            return code if isinstance(code, int) else await self._follow(turn_id, code[0])
        except TurnGone:
            raise NotFound(f"turn {turn_id} was erased while it was followed") from None

    async def _follow(self, turn_id: str, after: int) -> int:
        async with contextlib.aclosing(self.runtime.follow(self.tenant, turn_id, after)) as entries:
            async for entry in entries:
                if entry is None:
                    continue
                event = orjson.loads(entry.event)
                await self._show(entry.event, event)
                if event["type"] == "done":
                    return exits.of_stop_reason(event.get("stopReason"))
                if self._output.problem and entry.n > 1 and not self.worker.is_working:
                    return exits.CLOSED_PIPE  # somebody else runs it, and nobody reads here
                if event["type"] in PENDING and not await self._get_past(turn_id, event["id"]):
                    return exits.WAITING
        return exits.FAILED

    async def _show(self, raw: bytes, event: dict[str, Any]) -> None:
        if self._as_json:
            await self._output.record(raw)
            return
        if line := self._narrator.tell(event):
            say(line)
        if event["type"] == "done" and event["text"]:
            await self._output.text(event["text"])

    async def _get_past(self, turn_id: str, item_id: str) -> bool:
        """False: the item stays open for later."""
        view = await self.runtime.turn(self.tenant, turn_id)
        if view.item is None or view.item.id != item_id:
            return True  # somebody decided it meanwhile
        return await self._decide(view.item)

    async def _decide(self, item: OpenItem) -> bool:
        while asking.is_at_terminal():
            decision = await asking.ask(item)
            if decision is None:
                break
            try:
                await self.runtime.settle(self.tenant, item.id, decision)
                return True
            except (AlreadyDecided, ItemClosed, ItemExpired) as late:
                say(str(late))
                return True
            except InvalidRequest as problem:
                say(str(problem))
        say(*how_to_decide(item, self.where))
        return False

    async def _get_to_its_turn(self, turn_id: str, after: int) -> int | tuple[int]:
        """Wait until the turns before this one of its session have ended; the exit code if one waits for somebody,
        else how many events were shown."""
        view = await self.runtime.turn(self.tenant, turn_id)
        while view.state == "waiting":
            for entry in (await self.runtime.events(self.tenant, turn_id))[after:]:
                await self._show(entry.event, orjson.loads(entry.event))
                after = entry.n
            if view.blocking is not None:
                say(f"turn {turn_id} waits behind turn {view.blocking.turn_id} of its session")
                if not await self._decide(view.blocking):
                    return exits.WAITING
            else:
                await asyncio.sleep(_LOOK_S)
            view = await self.runtime.turn(self.tenant, turn_id)
        return (after,)


def how_to_decide(item: OpenItem, where: Where) -> list[str]:
    if item.kind == "approval":
        return [
            *asking.approval_card(item),
            f"approve: {where.command('approvals', 'approve', item.id)}",
            f"deny:    {where.command('approvals', 'deny', item.id, '--reason', 'WHY')}",
        ]
    return [*asking.question_card(item), f"answer: {where.command('questions', 'answer', item.id, 'TEXT')}"]


Work = Callable[[Conversation], Coroutine[Any, Any, int]]


def converse(where: Where, output: Output, as_json: bool, work: Work) -> int:
    """Do ``work`` with the store running and a worker at hand; the exit code. Raises LoopEngineError."""
    settings = load_settings(where, log_level="warning")
    with deployed(settings, where.redis_url) as deployment:
        code = asyncio.run(_converse(deployment, where, output, as_json, work))
    if output.failure is not None:
        say(f"loopengine: stdout could not be written: {output.failure}; the turn is not affected")
        return exits.FAILED
    return code


async def _converse(deployment: Deployment, where: Where, output: Output, as_json: bool, work: Work) -> int:
    async with opened(deployment) as runtime:
        worker = LocalWorker(deployment, runtime)
        talk = Conversation(runtime, worker, deployment.settings.tenant, output, as_json=as_json, where=where)
        try:
            return await _until_interrupted(talk, work(talk))
        finally:
            await worker.stop()


async def _until_interrupted(talk: Conversation, work: Coroutine[Any, Any, int]) -> int:
    """Do ``work``; at Ctrl-C (or SIGTERM, SIGHUP) leave the turn to itself and say where it is.

    A second signal ends the process at once, without waiting for the step that is running here."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    received: list[int] = []

    def on_signal(number: int) -> None:
        received.append(number)
        if len(received) > 1:
            os._exit(exits.of_signal(number))
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, on_signal, number)
    either: list[asyncio.Future[Any]] = [task, talk.worker.failed]
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
        await talk.worker.failed
    if not received or not task.cancelled():
        return task.result()
    if talk.turn_id is not None:
        say("", f"turn {talk.turn_id} is kept: workers go on with it, or whoever follows it")
        say(f"follow: {talk.where.command('turns', 'follow', talk.turn_id)}")
    return exits.of_signal(received[0])
