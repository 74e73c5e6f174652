"""From a model's answer to judged calls: validated first, then put before the rules. Decides, runs nothing.

What stands in the record is what counts later: the verdict of this moment, whatever the rules become.
"""

from __future__ import annotations

import json
from typing import Any

from engine.agents.loaded import LoadedAgent
from engine.models.contract import Block, ModelAnswer
from engine.records import Record, model_answered
from engine.rules.verdict import Scope
from protocol.json_text import digest_of

MOST_CALLS = 64  # of one answer; what is over gets an error result each
ASK_USER = "ask_user"


def judged_answer(at: str, answer: ModelAnswer, agent: LoadedAgent, scope: Scope) -> Record:
    """The `model` record of an answer, with every call of it judged."""
    uses = [block for block in answer.blocks if block.get("type") == "tool_use"]
    calls = [_call(pos, block, agent, scope) for pos, block in enumerate(uses)]
    usage = {
        "inputTokens": answer.usage.input_tokens,
        "outputTokens": answer.usage.output_tokens,
        "cachedTokens": answer.usage.cached_tokens,
    }
    return model_answered(at, answer.blocks, answer.stop, usage, answer.provider, answer.model, calls)


def _call(pos: int, block: Block, agent: LoadedAgent, scope: Scope) -> dict[str, Any]:
    name = block.get("name") if isinstance(block.get("name"), str) else ""
    raw = block.get("input")
    args: dict[str, Any] = raw if isinstance(raw, dict) else {}
    call = {"pos": pos, "id": str(block.get("id") or ""), "tool": name or "", "args": args}
    call |= {"digest": digest_of(name or "", args), "kind": "effect", "rule": None, "unknown": "ask"}
    if problem := _problem(pos, name or "", block, args, agent):
        return call | {"verdict": "invalid", "reason": problem}
    tool = agent.tools[name or ""]
    call |= {"kind": tool.kind, "unknown": tool.on_interrupt}
    if name == ASK_USER:
        return call | {"verdict": "question", "reason": "a question to the person"}
    verdict = agent.judge(scope, tool.name, args)
    return call | {"verdict": verdict.decision, "rule": verdict.rule, "reason": verdict.reason}


def _problem(pos: int, name: str, block: Block, args: dict[str, Any], agent: LoadedAgent) -> str | None:
    """What is wrong with a call, in words that let the model correct itself."""
    if pos >= MOST_CALLS:
        return f"Too many calls in one answer: at most {MOST_CALLS} are taken. Call again for the rest."
    if name not in agent.tools:
        return f"There is no tool named {json.dumps(name)}. The tools are: {', '.join(sorted(agent.tools))}."
    if "input_raw" in block or not isinstance(block.get("input"), dict):
        raw = block.get("input_raw", block.get("input"))
        return f"The arguments of {name} are not a JSON object: {json.dumps(raw)[:300]}"
    problem = agent.tools[name].problem_with(args)
    return f"The arguments of {name} are not acceptable: {problem}" if problem else None
