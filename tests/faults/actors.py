"""The processes of a run: forked from one parent that has everything imported, and killed for real.

A worker is the product's own TurnSlots, fed from RQ's queue; a client does one thing through the product's Runtime.
"""

from __future__ import annotations

import asyncio
import ctypes
import functools
import os
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import engine.turn
from engine.agents.registry import AgentRegistry
from engine.runtime import Decision, NewTurn, Runtime
from engine.store.connection import client
from engine.store.store import Store
from engine.store.tail import Tail
from engine.store.waker import Waker
from protocol.errors import NotFound
from tests.faults.agent import OneAgent, make_agent, quick_settings
from tests.faults.ledger import Ledger
from tests.faults.scenarios import Scenario
from tests.faults.writes import FaultyConnection, Target
from workers.slots import TurnSlots

TENANT = "acme"
SESSION = "s"
PATIENCE_S = 5.0
PR_SET_PDEATHSIG = 1
PAUSE_S = 0.02  # how long each model call and each tool takes in a slow scenario


@dataclass(frozen=True)
class World:
    """What every process of a run is given."""

    url: str
    ledger: Ledger
    scenario: Scenario
    target: Target | None

    def store(self, role: str) -> Store:
        patience_s = None if role == "worker" else PATIENCE_S
        return Store(FaultyConnection(self.url, patience_s, self.ledger, role, self.target), 1, 3600)

    def agents(self) -> AgentRegistry:
        return cast(AgentRegistry, _one_agent(self.ledger.path, self.scenario.max_turns, self.scenario.slow))

    def runtime(self) -> Runtime:
        store = self.store("client")
        settings = _settings(self.scenario.expiry_s)
        waker = Waker(store.connection, store.connection, settings.queue)
        tail = Tail(store, client(self.url, timeout_s=None))
        return Runtime(store, tail, waker, self.agents(), settings, store.connection)


# Made once, before forking: a worker is born in every second of the table.
_settings = functools.cache(quick_settings)


@functools.cache
def _one_agent(ledger: Path, max_turns: int, slow: bool) -> OneAgent:
    return OneAgent(make_agent(Ledger(ledger), max_turns, PAUSE_S if slow else 0.0))


def fork(world: World, work: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """Pid of a child that does ``work`` and exits with 0. What it prints goes to a file beside the ledger."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # nobody outlives the one who plays
        output = os.open(world.ledger.path.with_name("output"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        engine.turn.OPENING_RIDES_S = 0.0 if world.scenario.slow else 10.0
        asyncio.run(work())
        code = 0
    except BaseException:  # noqa: BLE001 -- the child must end here, whatever it was
        traceback.print_exc()
    finally:
        os._exit(code)


async def be_worker(world: World, name: str) -> None:
    store = world.store("worker")
    await store.open()
    settings = _settings(world.scenario.expiry_s)
    slots = TurnSlots(store, store.connection, world.agents(), settings, world.url, name)
    await slots.start()
    jobs: Any = client(world.url, timeout_s=None)
    pumps: set[asyncio.Task[None]] = set()
    while True:
        await jobs.execute_command("BLPOP", f"rq:queue:{settings.queue}", 0)
        pump = asyncio.create_task(slots.pump())
        pumps.add(pump)
        pump.add_done_callback(pumps.discard)


async def be_client(world: World, do: str, text: str, item: str, digest: str) -> None:
    """Do one thing, and note what was answered."""
    runtime = world.runtime()
    await runtime.store.open()
    answers = Ledger(world.ledger.path.with_name("answers"))
    match do:
        case "say":
            new = NewTurn(TENANT, "test", "agent", text, SESSION, idempotency_key=f"key of {text}")
            accepted = await runtime.accept(new)
            answers.write(did="say", turn=accepted.turn_id, message=text)
        case "cancel":
            # The first message's turn by name: a client that lost the reply sends this again.
            first = next(line["turn"] for line in answers.lines() if line["did"] == "say")
            answers.write(did="cancel", turn=await runtime.cancel(TENANT, "agent", SESSION, first))
        case "erase":
            try:
                await runtime.erase(TENANT, "agent", SESSION)
            except NotFound:
                answers.write(did="erase", repeated=True)
            else:
                answers.write(did="erase", repeated=False)
        case _:
            what: Any = "answer" if do == "outcome" else do
            decision = Decision(what, "ann", digest=digest or None, text=text or None)
            decided = await runtime.settle(TENANT, item, decision)
            answers.write(did="decide", item=item, what=what, text=text, digest=digest, decision=decided.decision)
    await runtime.aclose()
