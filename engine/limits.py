"""What one turn may use: running time, tokens, tool calls. Pure: the time used is told, never measured here.

Only running time counts. A turn that is parked, queued or waits for its provider uses none: what it has used stands
in its records (``used``, written by its owners), and what lost owners had used in addition, in its hash (release.lua).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.agents.loaded import LoadedAgent
from engine.fold import State
from engine.plan import CallModel, Finish, NextStep, RunCall


@dataclass(frozen=True, slots=True)
class Limits:
    """None: no limit."""

    seconds: float | None = None
    tokens: int | None = None
    tool_calls: int | None = None

    def seconds_left(self, used_ms: int) -> float | None:
        """Never negative; None: as long as it takes."""
        return None if self.seconds is None else max(0.0, self.seconds - used_ms / 1000)


def limits_of(agent: LoadedAgent, turn_timeout_s: float | None) -> Limits:
    """The agent's own limits; ``turn_timeout_s`` is for agents that set no time."""
    seconds = agent.turn_timeout_s if agent.turn_timeout_s is not None else turn_timeout_s
    return Limits(seconds, agent.max_tokens_per_turn, agent.max_tool_calls)


def over_limit(steps: Sequence[NextStep], state: State, limits: Limits, used_ms: int) -> str | None:
    """Why the turn must end instead of taking ``steps``; None: it may go on.

    A turn that has come to its end keeps it: there is nothing left to limit."""
    if not steps or isinstance(steps[0], Finish):
        return None
    if limits.seconds_left(used_ms) == 0.0:
        return f"the turn ran longer than its time limit of {limits.seconds:g} s (turnTimeoutSeconds)"
    tokens = state.usage.get("inputTokens", 0) + state.usage.get("outputTokens", 0)
    if limits.tokens is not None and isinstance(steps[0], CallModel) and tokens >= limits.tokens:
        return f"the turn used {tokens} tokens, its limit is {limits.tokens} (maxTokensPerTurn)"
    calls = sum(1 for step in state.steps for call in step.calls if call.intents) + sum(
        1 for step in steps if isinstance(step, RunCall) and not step.call.intents
    )
    if limits.tool_calls is not None and isinstance(steps[0], RunCall) and calls > limits.tool_calls:
        return f"the turn asked for tool call number {calls}, its limit is {limits.tool_calls} (maxToolCalls)"
    return None
