"""The agent of the fault table: its model does what the message names, its tools write the ledger.

Which answer is due follows from the request alone, so that it does not matter which process asks.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from engine.agents.loaded import LoadedAgent
from engine.models.contract import Block, Message, ModelAnswer, ModelRequest, OnText, Usage
from engine.rules.ruleset import Rule, RuleSet
from engine.settings import Settings
from engine.tools.context import ToolContext
from engine.tools.decorator import tool
from engine.tools.system import SYSTEM_TOOLS
from engine.tools.tool import Tool
from protocol.errors import ModelBusy, ModelCut
from tests.faults.ledger import Ledger

KINDS = {"read": "read", "look": "read", "act": "effect", "pay": "effect", "idem": "idempotent"}
KINDS |= {"forbidden": "effect", "hold": "effect", "crash_early": "effect", "crash_late": "effect"}
EFFECTS = {name for name, kind in KINDS.items() if kind == "effect"}
GATED = {"pay"}

# Message -> the calls of each answer before the last, which is in words. "cut" and "busy": the first try fails.
SCRIPTS: dict[str, list[list[str]]] = {
    "plain": [],
    "reads": [["read a", "look b"]],
    "effect": [["act a"]],
    "two effects": [["act a", "act b"]],
    "idempotent": [["idem a"]],
    "gated": [["pay a"]],
    "mixed": [["read a", "act b", "pay c"]],
    "question": [["ask_user which?"]],
    "forbidden": [["act a", "forbidden b"]],
    "invalid": [["no_such_tool a"]],
    "endless": [["read a"], ["act b"], ["read c"]],
    "hold": [["hold a"]],
    "crash early": [["crash_early a"]],
    "crash late": [["crash_late a"]],
    "cut": [["act a"]],
    "busy": [["act a"]],
}
FAILING = {"cut": ModelCut, "busy": ModelBusy}

RULES = RuleSet(
    rules=(
        Rule("*", "allow", name="all"),
        Rule("pay", "ask", name="payments"),
        Rule("forbidden", "deny", name="never"),
    )
)


class FaultModel:
    provider = "scripted"

    def __init__(self, ledger: Ledger, pause_s: float) -> None:
        self.ledger = ledger
        self.pause_s = pause_s

    async def answer(self, request: ModelRequest, on_text: OnText | None = None) -> ModelAnswer:
        last = max(n for n, message in enumerate(request.messages) if _spoken(message))
        message = _spoken(request.messages[last])
        step = sum(1 for m in request.messages[last:] if m["role"] == "assistant")
        self.ledger.write(what="model", message=message, step=step, problem=pairing_problem(request.messages))
        await asyncio.sleep(self.pause_s)
        if step == 0 and message in FAILING and self.ledger.once(f"model-{message}"):
            raise ModelBusy("too many requests", 0.05) if message == "busy" else ModelCut("the stream was cut")
        script = SCRIPTS[message]
        if step >= len(script):
            return ModelAnswer([{"type": "text", "text": f"done {message}"}], "end_turn", Usage(1, 1), "s", "s")
        return ModelAnswer([_use(step, n, c) for n, c in enumerate(script[step])], "tool_use", Usage(1, 1), "s", "s")


def pairing_problem(messages: list[Message]) -> str | None:
    """Why a strict provider would refuse these messages, or None."""
    for before, after in zip([None, *messages], [*messages, None], strict=True):
        uses = [b["id"] for b in (before or {}).get("content", []) if b["type"] == "tool_use"]
        results = [b["tool_use_id"] for b in (after or {}).get("content", []) if b["type"] == "tool_result"]
        if uses != results:
            return f"calls {uses} are answered by results {results}"
        if before and after and before["role"] == after["role"]:
            return f"two neighbouring messages are of role {before['role']}"
    return None


def _spoken(message: Message) -> str:
    """The user's words in a message, or ''."""
    texts = [block["text"] for block in message["content"] if block["type"] == "text"]
    return str(texts[-1]) if texts and message["role"] == "user" else ""


def _use(step: int, position: int, written: str) -> Block:
    name, _, argument = written.partition(" ")
    args = {"question": argument} if name == "ask_user" else {"what": argument}
    return {"type": "tool_use", "id": f"use_{step}_{position}", "name": name, "input": args}


def make_tools(ledger: Ledger, pause_s: float) -> dict[str, Tool]:
    def note(name: str, what: str, context: ToolContext) -> None:
        ledger.write(what="tool", tool=name, args={"what": what}, turn=context.turn_id, call=context.call)

    def make(name: str, **hints: Any) -> Tool:
        async def run(what: str, context: ToolContext) -> str:
            crashes = name.startswith("crash") and ledger.once(f"crash-{context.turn_id}")
            if crashes and name == "crash_early":
                os.kill(os.getpid(), signal.SIGKILL)
            note(name, what, context)
            if crashes:
                os.kill(os.getpid(), signal.SIGKILL)
            await asyncio.sleep(2 * pause_s if name == "look" else pause_s)
            if name == "hold":
                await context.cancelled.wait()
            return f"{name} {what}"

        return tool(name=name, description=name, **hints)(run)

    made = [make(name, read_only=kind == "read", idempotent=kind == "idempotent") for name, kind in KINDS.items()]
    return {one.name: one for one in made} | dict(SYSTEM_TOOLS)


def make_agent(ledger: Ledger, max_turns: int, pause_s: float) -> LoadedAgent:
    return LoadedAgent(
        name="agent",
        folder=Path("."),
        system_prompt="You are a test.",
        model_config=None,
        tools=make_tools(ledger, pause_s),
        rules=RULES,
        max_turns=max_turns,
        custom_model=FaultModel(ledger, pause_s),
    )


class OneAgent:
    """A registry of this one agent."""

    def __init__(self, agent: LoadedAgent) -> None:
        self._agent = agent

    def get(self, name: str) -> LoadedAgent:
        return self._agent


def quick_settings(expiry_s: float | None) -> Settings:
    """Lost workers are noticed at once; there is never more than one, so nobody is suspected wrongly."""
    return Settings.model_validate(
        {
            "LOOPENGINE_LEASE_SECONDS": 0.03,
            "LOOPENGINE_SWEEP_SECONDS": 0.015,
            "LOOPENGINE_APPROVAL_EXPIRY_SECONDS": expiry_s,
        }
    )
