"""Says in advance what would become of a call, by the same code that judges it in a turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.rules.ruleset import Match
from engine.rules.verdict import Scope
from engine.tools.arguments import unknown_tool

if TYPE_CHECKING:
    from engine.agents.loaded import LoadedAgent


def explain(agent: LoadedAgent, scope: Scope, tool: str, args: dict[str, Any]) -> dict[str, Any]:
    """What a call would get, as plain JSON data.

    ``effect`` is allow, ask, deny, ``unknown`` (no such tool: never judged, never run) or ``invalid`` (arguments
    that the tool refuses: likewise). ``matched`` lists every rule that applies, the deciding one first.
    """
    answer: dict[str, Any] = {
        "agent": agent.name,
        "scope": {"tenant": scope.tenant, "environment": scope.environment, "agent": scope.agent},
        "tool": tool,
        "args": args,
        "rule": None,
        "matched": [],
    }
    known = agent.tools.get(tool)
    if known is None:
        return {**answer, "effect": "unknown", "reason": unknown_tool(tool, agent.tools)}
    problem = known.problem_with(args)
    if problem is not None:
        return {**answer, "effect": "invalid", "reason": problem}
    verdict = agent.judge(scope, tool, args)
    matches = agent.rules.current().matches(scope, tool, known.with_defaults(args))
    return {
        **answer,
        "effect": verdict.decision,
        "reason": verdict.reason,
        "rule": verdict.rule,
        "version": verdict.version,
        "matched": [_shown(match) for match in matches],
    }


def _shown(match: Match) -> dict[str, Any]:
    rule = match.rule
    return {"rule": rule.label, "file": rule.file, "line": rule.line, "scope": rule.scope, "decision": rule.decision}
