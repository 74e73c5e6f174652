"""A world for the store's scripts, the planner and the loop: the product's own code over a real Valkey, with a
connection whose calls wait at the gate and lose replies, tools that write a ledger outside it, and a scripted model.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import redis

from engine.agents.loaded import LoadedAgent
from engine.agents.registry import AgentRegistry
from engine.models.contract import ModelAnswer, ModelRequest, OnText, Usage
from engine.rules.ruleset import Rule, RuleSet
from engine.runtime import Runtime
from engine.settings import Settings
from engine.store.connection import SHA, SOURCE, Connection
from engine.store.keys import Keys
from engine.store.store import Store
from engine.store.tail import Tail
from engine.store.waker import Waker
from engine.tools.context import ToolContext
from engine.tools.decorator import tool
from engine.tools.system import SYSTEM_TOOLS
from engine.tools.tool import Tool
from tests.schedules.gate import ACTOR, Gate

LOST_REPLY = 0.08
KINDS = ("read", "act", "pay", "idem", "forbidden", "question", "bad")
TENANTS = ("acme", "bolt")


class GatedConnection(Connection):
    """Each call: a step before, the call, a step after; now and then the reply is lost and the call repeated."""

    def __init__(self, redis_url: str, gate: Gate) -> None:
        self.client: Any = redis.Redis.from_url(redis_url, protocol=2)
        self.client.response_callbacks.clear()
        self.gate = gate

    async def command(self, *args: Any) -> Any:
        await self.gate.step()
        reply = self.client.execute_command(*args)
        while not self.gate.open and args[0] == "EVALSHA" and self.gate.rng.random() < LOST_REPLY:
            await self.gate.step()
            reply = self.client.execute_command(*args)
        await self.gate.step()
        return reply

    async def load_scripts(self) -> None:
        for source in SOURCE.values():
            self.client.execute_command("SCRIPT", "LOAD", source)
        assert set(SHA) == set(SOURCE)


class Deaf:
    """RQ is left out: workers of this world look for work by themselves."""

    async def script(self, name: str, keys: list[str], args: list[Any]) -> list[Any]:
        return []


@dataclass
class Message:
    turn: str  # our own name for it, also in its text
    tenant: str
    session: str
    answers: list[list[str]]  # kinds of the calls of each answer; after the last one: the final text
    turn_id: str = ""


@dataclass
class World:
    rng: random.Random
    gate: Gate
    store: Store
    runtime: Runtime
    agent: LoadedAgent
    raw: Any
    messages: list[Message]
    ledger: list[tuple[str, str, str, str]] = field(default_factory=list)  # turn id, path, tool, actor
    model_calls: Counter[tuple[str, int]] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    decided: set[tuple[str, str]] = field(default_factory=set)  # item, what or the answer
    cancelled: set[str] = field(default_factory=set)
    lost_suffixes: int = 0

    @property
    def partitions(self) -> list[Keys]:
        return self.store.partitions

    def note(self, context: ToolContext, name: str) -> None:
        self.ledger.append((context.turn_id, context.call, name, ACTOR.get()))


class ScriptedWorld:
    """The model: which message is answered stands in its text, which answer is due in the number of answers since."""

    provider = "scripted"

    def __init__(self, world: World) -> None:
        self.world = world

    async def answer(self, request: ModelRequest, on_text: OnText | None = None) -> ModelAnswer:
        await self.world.gate.step()
        check_pairs(request.messages)
        last = max(i for i, m in enumerate(request.messages) if _spoken(m))
        name = _spoken(request.messages[last])
        message = next(m for m in self.world.messages if m.turn == name)
        step = sum(1 for m in request.messages[last:] if m["role"] == "assistant")
        self.world.model_calls[(name, step)] += 1
        kinds = message.answers[step] if step < len(message.answers) else []
        blocks = [_use(step, pos, kind) for pos, kind in enumerate(kinds)] or [{"type": "text", "text": f"done {name}"}]
        return ModelAnswer(blocks, "tool_use" if kinds else "end_turn", Usage(1, 1), "scripted", "scripted")


def check_pairs(messages: list[dict[str, Any]]) -> None:
    """Promise 7 on the request itself."""
    for before, after in zip([None, *messages], [*messages, None], strict=True):
        uses = [b["id"] for b in (before or {}).get("content", []) if b["type"] == "tool_use"]
        results = [b["tool_use_id"] for b in (after or {}).get("content", []) if b["type"] == "tool_result"]
        assert uses == results, (uses, results)
        assert before is None or after is None or before["role"] != after["role"]


def _spoken(message: dict[str, Any]) -> str:
    """Our name of the message that a user's words stand for, or ''."""
    texts = [b["text"] for b in message["content"] if b["type"] == "text"] if message["role"] == "user" else []
    return next((text.removeprefix("please: ") for text in reversed(texts) if text.startswith("please: ")), "")


def _use(step: int, pos: int, kind: str) -> dict[str, Any]:
    name = {"question": "ask_user", "bad": "no_such_tool"}.get(kind, kind)
    arguments: dict[str, Any] = {"question": "which?"} if kind == "question" else {"n": pos}
    return {"type": "tool_use", "id": f"use_{step}_{pos}", "name": name, "input": arguments}


def make_tools(world: World) -> dict[str, Tool]:
    def make(name: str, **hints: Any) -> Tool:
        async def run(n: int, context: ToolContext) -> str:
            await world.gate.step()
            world.note(context, name)
            await world.gate.step()
            return f"{name} {n}"

        return tool(name=name, description=name, **hints)(run)

    made = [
        make("read", read_only=True),
        make("act"),
        make("pay"),
        make("idem", idempotent=True),
        make("forbidden"),
    ]
    return {one.name: one for one in made} | dict(SYSTEM_TOOLS)


RULES = RuleSet(
    rules=(
        Rule("*", "allow", name="all"),
        Rule("pay", "ask", name="payments"),
        Rule("forbidden", "deny", name="never"),
    )
)


class OneAgent:
    agent: LoadedAgent

    def get(self, name: str) -> LoadedAgent:
        return self.agent


def make_world(seed: int, redis_url: str) -> World:
    rng = random.Random(seed)
    gate = Gate(rng)
    raw: Any = redis.Redis.from_url(redis_url)
    raw.flushall()
    connection = GatedConnection(redis_url, gate)
    settings = Settings(LOOPENGINE_PARTITIONS=rng.choice([1, 3]))
    store = Store(connection, settings.partitions, retention_s=3600)
    messages = [
        Message(
            turn=f"m{i}",
            tenant=rng.choice(TENANTS),
            session=f"s{rng.randrange(2)}",
            answers=[
                [rng.choice(KINDS) for _ in range(rng.choice([1, 1, 2, 3, 4]))] for _ in range(rng.choice([0, 1, 1, 2]))
            ],
        )
        for i in range(10)
    ]
    placeholder, deaf, registry = cast(LoadedAgent, None), cast(Connection, Deaf()), OneAgent()
    runtime = Runtime(
        store, cast(Tail, None), Waker(deaf, connection, "q"), cast(AgentRegistry, registry), settings, deaf
    )
    world = World(rng, gate, store, runtime, placeholder, raw, messages)
    world.agent = LoadedAgent(
        name="agent",
        folder=Path("."),
        system_prompt="You are a test.",
        model_config=None,
        tools=make_tools(world),
        rules=RULES,
        max_turns=6,
        custom_model=ScriptedWorld(world),
    )
    registry.agent = world.agent
    return world
