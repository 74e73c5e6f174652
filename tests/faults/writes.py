"""Every durable write by its name, and the fault at one of them: a connection whose process kills itself just before
a write is sent or just after it was applied.

It is given to the product's own Store; nothing in the product knows of it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from engine.store.connection import Connection, client
from tests.faults.agent import KINDS
from tests.faults.ledger import Ledger

Side = Literal["before", "after"]


@dataclass(frozen=True)
class Target:
    """The first write of this name, in whatever process it comes, and on which side of it that process dies."""

    write: str
    side: Side


class FaultyConnection(Connection):
    """``role``: client or worker. ``trace``: where applied writes are noted, in order."""

    def __init__(self, url: str, patience_s: float | None, ledger: Ledger, role: str, target: Target | None) -> None:
        super().__init__(client(url), patience_s)
        self._ledger = ledger
        self._trace = Ledger(ledger.path.with_name("trace"), sync=False)
        self._role = role
        self._target = target
        self._under_way = 0

    async def script(self, name: str, keys: list[str], args: list[Any]) -> list[Any]:
        # Names that follow from the arguments are found without waiting: accept and wake must leave in one tick.
        write = self._name(name, args) if name not in ("claim", "release") else await self._peek(name, keys, args)
        if write is None:
            return await super().script(name, keys, args)
        if self._target == Target(write, "before"):
            await self._die()
        self._trace.write(write=write, by=os.getpid(), told="sent")
        self._under_way += 1
        try:
            reply = await super().script(name, keys, args)
        finally:
            self._under_way -= 1
        applied = name != "commit" or reply[0] == b"OK"
        if applied and self._target == Target(write, "after"):
            await self._die()
        self._trace.write(write=write, by=os.getpid(), told="applied" if applied else "refused")
        return reply

    async def _die(self) -> None:
        if self._ledger.once("kill"):
            while self._under_way:  # noqa: ASYNC110 -- what was asked for before is applied before
                await asyncio.sleep(0.001)
            os.kill(os.getpid(), signal.SIGKILL)

    def _name(self, name: str, args: list[Any]) -> str | None:
        if name == "wake":
            return "wake" if self._role == "client" else None  # the sweep's come and go with the clock
        return name_of_commit(args) if name == "commit" else name

    async def _peek(self, name: str, keys: list[str], args: list[Any]) -> str | None:
        """Claims and releases are writes only if they find something; asked before, because the dead cannot tell."""
        prefix, worker = args[0], args[1]
        if name == "release":
            members = await self.command("ZRANGEBYLEX", keys[0], f"[{worker}|", f"({worker}}}")
            return "release" if members else None
        seconds, micros = await self.command("TIME")
        now_ms = int(seconds) * 1000 + int(micros) // 1000
        for tenant in await self.command("ZRANGEBYSCORE", keys[0], "-inf", now_ms):
            line = f"{prefix}ready:{tenant.decode()}"
            for ref in await self.command("ZRANGEBYSCORE", line, "-inf", now_ms, "LIMIT", 0, 1):
                state = await self.command("HGET", f"{prefix}t:{ref.decode()}", "state")
                return "claim (expiry)" if state == b"parked" else "claim"
        return None


def name_of_commit(args: list[Any]) -> str:
    """Script, kinds of records, ending: "commit turn+model+started effect -> go"."""
    if args[2] == "":
        return "commit forced (cancel)"
    first_record = 14 + args[13]
    events = [orjson.loads(entry[8:]) for entry in args[14:first_record]]
    records = [orjson.loads(record) for record in args[first_record:]]
    started = [KINDS[event["tool"]] for event in events if event["type"] == "tool:started"]
    run = [KINDS[event["name"]] for event in events if event["type"] == "toollane:result"]
    kinds: list[str] = []
    for record in records:
        kind = record["t"]
        if kind == "started":
            kind = f"started {started[0]}" if started else "started again"
        elif kind == "result" and run:
            kind = f"result {run.pop(0)}"
        if kind not in kinds:
            kinds.append(kind)
    return f"commit {'+'.join(kinds) or 'events only'} -> {args[6]}"
