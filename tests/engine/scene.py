"""A scene for the loop: the product's own runtime, store and loop on a real Valkey, with one agent whose tools keep a
ledger and whose model says what the test wrote, and workers that the test moves by hand.

A tool or model call that is told to hang hangs until its worker is killed, which is the crash of these tests.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import orjson
import redis

from engine.agents.loaded import LoadedAgent
from engine.agents.registry import AgentRegistry
from engine.drafts import Terms
from engine.loop import run_turn
from engine.models.anthropic import request_body
from engine.models.contract import Block, ModelAnswer, ModelRequest, OnText, Stop, Usage
from engine.perform import Services
from engine.rules.ruleset import Rule, RuleSet
from engine.runtime import Decision, NewTurn, Runtime
from engine.settings import Settings
from engine.store import keys as k
from engine.store.connection import Connection, client
from engine.store.keys import Keys
from engine.store.store import Claim, Commit, Ending, Store, new_token
from engine.store.tail import Tail
from engine.store.waker import Waker
from engine.tools.context import ToolContext
from engine.tools.decorator import tool
from engine.tools.system import SYSTEM_TOOLS
from engine.tools.tool import Tool
from engine.turn import Turn
from engine.views import OpenItem
from protocol.errors import ModelError, TurnLost
from protocol.events import validate_event
from tests.fake_provider import Rules
from tests.processes import eventually_async

TENANT = "acme"
PROMPT = "You are a test."
VOLATILE = ("turnId", "sessionId", "requestedAt", "expiresAt", "digest", "scope", "usedTokens", "budgetTokens", "ratio")
RULES = RuleSet(
    rules=(
        Rule("*", "allow", name="all"),
        Rule("pay", "ask", name="payments"),
        Rule("forbidden", "deny", name="never"),
    )
)


class Hang:
    """In place of a model's answer: the call hangs until its worker is killed."""


def said(text: str, stop: Stop = "end_turn") -> ModelAnswer:
    return ModelAnswer([{"type": "text", "text": text}], stop, Usage(10, 5), "scripted", "scripted")


def calls(*wanted: str, text: str = "", stop: Stop = "tool_use") -> ModelAnswer:
    """An answer with calls, each written as "tool" or "tool argument"; "bad" is a tool that does not exist."""
    blocks: list[Block] = [{"type": "text", "text": text}] if text else []
    for position, one in enumerate(wanted):
        name, _, argument = one.partition(" ")
        args = {"question": argument} if name == "ask_user" else {"what": argument or "x"}
        blocks.append({"type": "tool_use", "id": f"use_{position}", "name": name, "input": args})
    return ModelAnswer(blocks, stop, Usage(10, 5), "scripted", "scripted")


class WrittenModel:
    """Gives the answers it was given, one a call, and holds every request to the rules of a strict provider."""

    provider = "scripted"

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.script: list[ModelAnswer | ModelError | Hang] = []
        self.requests: list[ModelRequest] = []

    async def answer(self, request: ModelRequest, on_text: OnText | None = None) -> ModelAnswer:
        problem = Rules().anthropic(request_body(request, "m"))
        assert problem is None, problem
        self.requests.append(request)
        answer = self.script.pop(0)
        if isinstance(answer, Hang):
            await eventually_async(self.scene.opening_is_shown)
            await self.scene.hang()
        if isinstance(answer, ModelError):
            raise answer
        assert isinstance(answer, ModelAnswer)
        return answer


class Scene:
    """``ledger``: every run of a tool, as "tool argument", in the order of their ends. ``hanging``: tools that
    hang in their next run; ``failing``: tools that raise."""

    def __init__(self, store: Store, raw: Any, runtime: Runtime) -> None:
        self.store = store
        self.raw = raw
        self.runtime = runtime
        self.model = WrittenModel(self)
        self.ledger: list[str] = []
        self.keys_seen: list[str] = []
        self.hanging: Counter[str] = Counter()
        self.failing: set[str] = set()
        self.stuck = asyncio.Event()
        self.turn_id = ""
        self.session_id = "s"
        self.approval_expiry_s: float | None = None
        self.agent = self.agent_with()

    def agent_with(self, **changes: Any) -> LoadedAgent:
        settings: dict[str, Any] = {
            "name": "agent",
            "folder": Path("."),
            "system_prompt": PROMPT,
            "model_config": None,
            "tools": self._tools(),
            "rules": RULES,
            "max_turns": 6,
            "custom_model": self.model,
        }
        return LoadedAgent(**settings | changes)

    def _tools(self) -> dict[str, Tool]:
        made = [
            self._tool("read", read_only=True),
            self._tool("look", read_only=True),
            self._tool("act"),
            self._tool("pay"),
            self._tool("idem", idempotent=True),
            self._tool("fragile", on_interrupt="fail"),
            self._tool("forbidden"),
        ]
        return {one.name: one for one in made} | dict(SYSTEM_TOOLS)

    def _tool(self, name: str, **hints: Any) -> Tool:
        async def run(what: str, context: ToolContext) -> str:
            self.keys_seen.append(context.idempotency_key.replace(self.turn_id, "T"))
            if self.hanging[name]:
                self.hanging[name] -= 1
                await self.hang()
            if name in self.failing:
                raise RuntimeError(f"{name} is broken")
            self.ledger.append(f"{name} {what}")
            return f"{name} {what} done"

        return tool(name=name, description=name, **hints)(run)

    async def opening_is_shown(self) -> bool:
        """Has the loop flushed what opens the step that takes so long?"""
        story = await self.story()
        resumed = sum(line.startswith("turn:resumed") for line in story)
        return story[-1].startswith("budget:check") and resumed >= int(self.fields()["deaths"])

    async def hang(self) -> None:
        self.stuck.set()
        await asyncio.Event().wait()

    # -- what people and workers do

    @property
    def keys(self) -> Keys:
        return self.store.keys_for(TENANT)

    async def say(self, *script: ModelAnswer | ModelError | Hang, message: str = "hello") -> str:
        """A message to the session, with what the model will say to it."""
        self.model.script += script
        accepted = await self.runtime.accept(NewTurn(TENANT, "test", "agent", message, self.session_id))
        self.turn_id = accepted.turn_id
        return accepted.turn_id

    async def claim(self, worker: str = "w1") -> Claim | None:
        await self.store.connection.command("HINCRBY", self.keys.beats, worker, 1)
        claim = await self.store.claim(self.keys, worker, new_token(), tenant_limit=0, suspects=True)
        return claim if isinstance(claim, Claim) else None

    async def work(self, worker: str = "w1") -> str:
        """A worker claims what is due and takes it as far as it goes; the state that its turn is in then."""
        claim = await self.claim(worker)
        assert claim, "nothing is due"
        with contextlib.suppress(TurnLost):
            await self.run(claim)
        return str(self.fields(claim.turn_id)["state"])

    async def run(self, claim: Claim) -> None:
        terms = Terms(
            turn_id=claim.turn_id,
            session_id=claim.fields["sid"],
            tenant=claim.fields["tenant"],
            environment=claim.fields["env"],
            agent="agent",
            message=orjson.loads(claim.fields["input"])["message"],
            claim=claim.token,
            max_turns=self.agent.max_turns,
            approval_expiry_s=self.approval_expiry_s,
        )
        await run_turn(
            Turn(self.store, self.keys, claim, terms), self.agent, Services(self.model, 600.0, _at_once)
        )  # fmt: skip

    async def work_until_killed(self, worker: str = "w1") -> None:
        """A worker claims what is due, hangs, is killed, and what it ran is released by others."""
        self.stuck.clear()
        working = asyncio.create_task(self.work(worker))
        hanging = asyncio.create_task(self.stuck.wait())
        await asyncio.wait((working, hanging), return_when=asyncio.FIRST_COMPLETED)
        assert not working.done(), working.result()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await self.release(worker)

    async def release(self, worker: str = "w1") -> None:
        counter = self.raw.hget(self.keys.beats, worker).decode()
        assert await self.store.release(self.keys, worker, counter)

    async def item(self) -> OpenItem:
        [item] = await self.runtime.inbox(TENANT)
        return item

    async def decide(self, what: str, text: str | None = None) -> None:
        """Ann decides the open item."""
        item = await self.item()
        await self.runtime.settle(TENANT, item.id, Decision(what, "ann", text=text))  # type: ignore[arg-type]

    def make_due(self) -> None:
        """Let the time pass that the tenant's turns are waiting for."""
        line = f"{self.keys.prefix}ready:{k.tenant_hash(TENANT)}"
        for ref in self.raw.zrange(line, 0, -1):
            self.raw.zadd(line, {ref: 1})
        self.raw.zadd(self.keys.ready, {k.tenant_hash(TENANT): 1}, xx=True)

    async def write(self, claim: Claim, record: dict[str, Any]) -> None:
        """Another version of the product writes a record and gives the turn back."""
        raw = orjson.dumps(record | {"turn": claim.turn_id})
        ending = Ending("queue")
        await self.store.commit(
            self.keys,
            Commit(claim.ref, claim.session, claim.token, claim.n_events, claim.n_log, (), (raw,), ending),
        )

    # -- what is there to see

    def fields(self, turn_id: str = "") -> dict[str, str]:
        raw = self.raw.hgetall(self.keys.turn(k.turn_ref(TENANT, turn_id or self.turn_id)))
        return {name.decode(): value.decode() for name, value in raw.items()}

    def due_in_s(self, turn_id: str = "") -> float:
        ref = k.turn_ref(TENANT, turn_id or self.turn_id)
        seconds, micros = self.raw.time()
        due_ms = float(self.raw.zscore(f"{self.keys.prefix}ready:{k.tenant_hash(TENANT)}", ref))
        return due_ms / 1000 - float(seconds + micros / 1e6)

    async def log(self) -> list[dict[str, Any]]:
        return await self.store.log(TENANT, k.session_ref(TENANT, "agent", self.session_id))

    async def story(self, turn_id: str = "") -> list[str]:
        """The turn's events in the order of their numbers, each as its type and its fields, without what differs from
        run to run. Each of them is valid."""
        entries = await self.runtime.events(TENANT, turn_id or self.turn_id)
        assert [entry.n for entry in entries] == list(range(1, len(entries) + 1))
        events = [orjson.loads(entry.event) for entry in entries]
        for event in events:
            validate_event(event)
        return [_told(event).replace(turn_id or self.turn_id, "T") for event in events]


def _told(event: dict[str, Any]) -> str:
    parts = [value for name, value in event.items() if name not in VOLATILE]
    return " ".join(part if isinstance(part, str) else json.dumps(part) for part in parts)


def lines(text: str) -> list[str]:
    """A story as it is written in a test: one event a line."""
    return [line.strip() for line in text.strip().splitlines()]


async def _at_once() -> None:
    return


class _Deaf:
    """RQ is left out: workers of a scene are moved by hand."""

    async def script(self, name: str, keys: list[str], args: list[Any]) -> list[Any]:
        return []


class _OneAgent:
    def __init__(self) -> None:
        self.scene: Scene | None = None

    def get(self, name: str) -> LoadedAgent:
        assert self.scene
        return self.scene.agent


@asynccontextmanager
async def open_scene(redis_url: str) -> AsyncIterator[Scene]:
    connection = Connection(client(redis_url))
    store = Store(connection, 1, retention_s=3600)
    raw: Any = redis.Redis.from_url(redis_url)
    deaf, one_agent = cast(Connection, _Deaf()), _OneAgent()
    waker = Waker(deaf, connection, "q")
    settings = Settings()
    runtime = Runtime(store, cast(Tail, None), waker, cast(AgentRegistry, one_agent), settings, deaf)
    one_agent.scene = scene = Scene(store, raw, runtime)
    try:
        await store.open()
        yield scene
    finally:
        await connection.aclose()
        raw.close()
