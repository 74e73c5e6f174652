"""A worker's engine side in process: real slots over a real Valkey, a runtime beside them, and one agent whose model
and tools do what the message says, and wait for the test where the message says so.

    "plain"      the model answers at once
    "hold"       the model calls ``hold``, an effect that lasts until the test opens the gate
    "slow act"   the model's first answer waits at the gate; it calls ``act``, an effect
    "crash"      the model breaks in a way that no model may
    "panic"      so does an extension in Rust below the model
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import redis

from engine.agents.loaded import LoadedAgent
from engine.agents.registry import AgentRegistry
from engine.models.contract import Block, ModelAnswer, ModelRequest, OnText, Usage
from engine.rules.ruleset import RuleSet
from engine.runtime import NewTurn, Runtime
from engine.settings import Settings
from engine.store import keys as k
from engine.store.connection import Connection, client
from engine.store.keys import Keys
from engine.store.store import Store
from engine.store.tail import Tail
from engine.store.waker import Waker
from engine.tools.context import ToolContext
from engine.tools.decorator import tool
from engine.tools.system import SYSTEM_TOOLS
from protocol.errors import NotFound
from tests.processes import eventually_async
from workers.slots import TurnSlots

TENANT = "acme"
QUICK = {"LOOPENGINE_SWEEP_SECONDS": 0.02, "LOOPENGINE_LEASE_SECONDS": 600.0}


class Registry:
    """Knows one agent, or, after ``forget``, none."""

    def __init__(self, agent: LoadedAgent) -> None:
        self.agent: LoadedAgent | None = agent

    def forget(self) -> None:
        self.agent = None

    def get(self, name: str) -> LoadedAgent:
        if self.agent is None:
            raise NotFound(f"there is no agent named {name!r}")
        return self.agent


class Panic(BaseException):
    """As extensions in Rust raise it."""


class MessageModel:
    """Does what the latest message says; which answer is due follows from the request alone."""

    provider = "scripted"

    def __init__(self, house: House) -> None:
        self.house = house

    async def answer(self, request: ModelRequest, on_text: OnText | None = None) -> ModelAnswer:
        last = max(n for n, m in enumerate(request.messages) if m["content"][-1]["type"] == "text")
        message = request.messages[last]["content"][-1]["text"]
        is_first = len(request.messages) == last + 1
        self.house.asked.append(message)
        if message.startswith("crash"):
            raise ZeroDivisionError("the model broke")
        if message.startswith("panic"):
            raise Panic
        if message.startswith("slow") and is_first:
            await self.house.gate.wait()
        name = {"hold": "hold", "slow": "act"}.get(message.split()[0])
        blocks: list[Block] = [{"type": "text", "text": "ok"}]
        if name and is_first:
            blocks = [{"type": "tool_use", "id": "use_1", "name": name, "input": {}}]
        return ModelAnswer(blocks, "tool_use" if name else "end_turn", Usage(1, 1), "scripted", "scripted")


class House:
    """``held``: turn ids in ``hold``, ``ran``: effects that came to their end, ``told_to_stop``: turns whose tool saw
    that nobody waits for it. ``asked``: messages of all model calls."""

    def __init__(self, url: str, partitions: int) -> None:
        self.url = url
        self.partitions = partitions
        self.raw: Any = redis.Redis.from_url(url)
        self.gate = asyncio.Event()
        self.asked: list[str] = []
        self.held: list[str] = []
        self.ran: list[str] = []
        self.told_to_stop: list[str] = []
        self.agent = LoadedAgent(
            name="agent",
            folder=Path("."),
            system_prompt="You are a test.",
            model_config=None,
            tools={"hold": self._hold(), "act": self._act(), **SYSTEM_TOOLS},
            rules=RuleSet(default="allow"),
            custom_model=MessageModel(self),
        )
        self.opened = contextlib.AsyncExitStack()
        self.runtime: Runtime
        self.store: Store

    def _hold(self) -> Any:
        @tool
        async def hold(context: ToolContext) -> str:
            """Lasts until the gate is open."""
            self.held.append(context.turn_id)
            waiting = [asyncio.create_task(event.wait()) for event in (self.gate, context.cancelled)]
            try:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in waiting:
                    task.cancel()
                if context.cancelled.is_set():
                    self.told_to_stop.append(context.turn_id)
            self.ran.append(context.turn_id)
            return "held"

        return hold

    def _act(self) -> Any:
        @tool
        async def act(context: ToolContext) -> str:
            """Has its effect at once."""
            self.ran.append(context.turn_id)
            return "acted"

        return act

    async def _store(self, patience_s: float | None) -> Store:
        store = Store(Connection(client(self.url), patience_s), self.partitions, 3600)
        await store.open()
        return store

    async def open(self) -> None:
        self.store = await self._store(5.0)
        connection = self.store.connection
        tail = Tail(self.store, client(self.url, timeout_s=None))
        registry = cast(AgentRegistry, Registry(self.agent))
        waker = Waker(connection, connection, "loopengine")
        self.runtime = Runtime(self.store, tail, waker, registry, Settings(), connection)
        self.opened.push_async_callback(self.runtime.aclose)

    async def slots(self, name: str = "w1", registry: Registry | None = None, **settings: Any) -> TurnSlots:
        """Started slots of a worker; closed with the house."""
        store = await self._store(None)
        agents = cast(AgentRegistry, registry or Registry(self.agent))
        chosen = Settings.model_validate(QUICK | settings)
        slots = TurnSlots(store, store.connection, agents, chosen, self.url, name)
        await slots.start()

        async def close() -> None:
            await slots.drain(0)
            await slots.aclose()

        self.opened.push_async_callback(close)
        return slots

    # -- turns

    async def say(self, message: str, session: str = "s") -> str:
        return (await self.runtime.accept(NewTurn(TENANT, "test", "agent", message, session))).turn_id

    @property
    def keys(self) -> Keys:
        return self.store.keys_for(TENANT)

    def field(self, turn_id: str, name: str = "state") -> str | None:
        value = self.raw.hget(self.keys.turn(k.turn_ref(TENANT, turn_id)), name)
        return None if value is None else value.decode()

    async def becomes(self, turn_id: str, state: str) -> None:
        async def is_so() -> bool:
            return self.field(turn_id) == state

        await eventually_async(is_so)

    async def holds(self, count: int) -> None:
        """Wait until so many runs of ``hold`` have begun."""

        async def is_so() -> bool:
            return len(self.held) >= count

        await eventually_async(is_so)

    def records(self, session: str = "s") -> list[bytes]:
        records: list[bytes] = self.raw.lrange(self.keys.log(k.session_ref(TENANT, "agent", session)), 0, -1)
        return records

    def wake_ups(self) -> int:
        return int(self.raw.llen("rq:queue:loopengine"))

    def make_due(self) -> None:
        line = f"{self.keys.prefix}ready:{k.tenant_hash(TENANT)}"
        for ref in self.raw.zrange(line, 0, -1):
            self.raw.zadd(line, {ref: 1})
        self.raw.zadd(self.keys.ready, {k.tenant_hash(TENANT): 1}, xx=True)


@asynccontextmanager
async def open_house(url: str, partitions: int = 1) -> AsyncIterator[House]:
    house = House(url, partitions)
    async with house.opened:
        try:
            await house.open()
            yield house
        finally:
            house.gate.set()
    house.raw.close()
