"""The outside steps: one model call, one tool call. Each answers with a draft and raises nothing but cancellation.

Owns how a provider's failure is classed and how long it is waited for. What follows from an attempt is plan.py's.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from engine import drafts
from engine.agents.loaded import LoadedAgent
from engine.drafts import Draft, Terms
from engine.fold import Call, State, apply
from engine.judge import judged_answer
from engine.models.contract import Message, Model, ModelAnswer, ModelRequest, ToolSchema
from engine.records import AttemptClass, attempt_failed
from engine.rules.verdict import Scope
from engine.tools.context import ToolContext
from engine.tools.run import run_tool
from protocol.errors import ModelBusy, ModelCut, ModelError, ModelTooLong

log = structlog.get_logger()

_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 60.0  # between attempts when the provider names no time itself
_LONGEST_RETRY_AFTER_S = 3600.0


@dataclass(frozen=True, slots=True)
class Services:
    """What the outside steps reach the world through."""

    model: Model
    tool_timeout_s: float
    steady: Callable[[], Awaitable[None]]  # returns when this worker may begin an effect
    turn_timeout_s: float | None = None  # for agents that set none of their own


async def ask_model(
    agent: LoadedAgent, services: Services, state: State, messages: list[Message], terms: Terms
) -> Draft:
    """One model call: its answer, judged, or the attempt that failed."""
    at, n = state.next_at, len(state.attempts) + 1
    request = ModelRequest(agent.system_prompt, messages, _schemas(agent), _room(agent, state))
    try:
        answer = await services.model.answer(request)
    except ModelError as error:
        class_ = _class_of(error)
        wait_ms = int(_wait_s(error, n) * 1000) if class_ == "retry" else None
        log.warning("model call failed", turn=terms.turn_id, at=at, attempt=n, kind=class_, reason=str(error))
        return Draft([attempt_failed(at, n, class_, str(error), terms.claim, wait_ms)])
    if flaw := _flaw(answer, state):
        return Draft([attempt_failed(at, n, flaw[0], flaw[1], terms.claim, None)])
    record = judged_answer(at, answer, agent, Scope(terms.tenant, terms.environment, terms.agent))
    folded = State(terms.turn_id)
    folded.steps = list(state.steps)
    apply(folded, record)
    return drafts.model_answered(record, folded.steps[-1])


def _schemas(agent: LoadedAgent) -> list[ToolSchema]:
    return [ToolSchema(t.name, t.description, t.input_schema) for t in agent.tools.values()]


def _room(agent: LoadedAgent, state: State) -> int:
    """Answers that did not fit are asked for once more with twice the room."""
    truncated = any(attempt.class_ == "truncated" for attempt in state.attempts)
    return agent.max_tokens * 2 if truncated else agent.max_tokens


def _class_of(error: ModelError) -> AttemptClass:
    match error:
        case ModelBusy():
            return "retry"
        case ModelCut():
            return "cut"
        case ModelTooLong():
            return "too_long"
        case _:
            return "fatal"


def _wait_s(error: ModelError, n: int) -> float:
    asked = error.retry_after_s if isinstance(error, ModelBusy) else None
    if asked is not None:
        return min(max(asked, 0.0), _LONGEST_RETRY_AFTER_S)
    # Jitter, so that turns that failed together do not come back together.
    longest_s: float = min(_FIRST_WAIT_S * 2 ** (n - 1), _LONGEST_WAIT_S)
    return longest_s * random.uniform(0.5, 1.0)


def _flaw(answer: ModelAnswer, state: State) -> tuple[AttemptClass, str] | None:
    """Why a complete answer still cannot be used."""
    calls = any(block.get("type") == "tool_use" for block in answer.blocks)
    text = any(block.get("type") == "text" and str(block.get("text") or "").strip() for block in answer.blocks)
    if answer.stop == "max_tokens":
        if calls:
            return "truncated", "the answer was cut by the output limit inside a tool call; nothing of it was run"
        if not any(attempt.class_ == "truncated" for attempt in state.attempts):
            return "truncated", "the answer was cut by the output limit"
    if not calls and not text:
        return "empty", f"the model answered with nothing (stop: {answer.stop})"
    return None


async def run_call(call: Call, agent: LoadedAgent, services: Services, terms: Terms) -> Draft:
    """One tool call, and what came of it. A tool that is not there any more gives an error result."""
    tool = agent.tools.get(call.tool)
    if tool is None:
        return drafts.call_resulted(call, "error", f"The tool {call.tool} is not available any more.", 0)
    context = ToolContext(
        tenant=terms.tenant,
        environment=terms.environment,
        agent=terms.agent,
        session_id=terms.session_id,
        turn_id=terms.turn_id,
        call=call.path,
        idempotency_key=drafts.idempotency_key(terms, call),
    )
    if call.kind != "read":
        await services.steady()
    began = time.monotonic()
    outcome = await run_tool(tool, call.args, context, services.tool_timeout_s)
    return drafts.call_resulted(call, outcome.status, outcome.content, int((time.monotonic() - began) * 1000))
