"""Judging: which rule decides a call. Pure; reading files and noticing changes happen elsewhere.

The most specific scope among the matching rules decides (a literal tenant before a literal environment before a
literal agent before wildcards); within one scope deny beats ask beats allow; the order in the file never matters.
A guardrail (a rule of the project-wide file) that denies is final whatever the scopes say.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

from engine.rules.conditions import Absent, Condition, values_at
from engine.rules.globs import matches_glob
from engine.rules.verdict import Decision, Scope, Verdict

_STRICTNESS: dict[Decision, int] = {"deny": 0, "ask": 1, "allow": 2}


@dataclass(frozen=True, slots=True)
class When:
    """A condition on the argument that a dotted path names."""

    path: str
    condition: Condition


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule as written. A scope part is a literal or ``*``; ``tool`` is a glob; all of ``when`` must hold."""

    tool: str
    decision: Decision
    tenant: str = "*"
    environment: str = "*"
    agent: str = "*"
    when: tuple[When, ...] = ()
    name: str | None = None
    file: str = "actauth.yml"
    line: int = 1
    is_guardrail: bool = False

    @property
    def label(self) -> str:
        return self.name if self.name is not None else f"{self.file}:{self.line}"

    @property
    def scope(self) -> str:
        return f"{self.tenant}/{self.environment}" + ("" if self.agent == "*" else f"/{self.agent}")

    @property
    def rank(self) -> tuple[bool, bool, bool, int]:
        """Sorts the deciding rule first."""
        return self.tenant == "*", self.environment == "*", self.agent == "*", _STRICTNESS[self.decision]


@dataclass(frozen=True, slots=True)
class Match:
    """A rule that applies to a call; ``unsure`` names arguments whose condition could not be evaluated."""

    rule: Rule
    unsure: tuple[str, ...] = ()


class Rules(Protocol):
    """Whatever judges: a fixed RuleSet, or the rules of files that may change (engine.rules.live)."""

    def judge(self, scope: Scope, tool: str, args: dict[str, Any]) -> Verdict: ...

    def current(self) -> RuleSet: ...


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules in force for one agent. ``default`` None: the file does not say, which means deny."""

    rules: tuple[Rule, ...] = ()
    default: Decision | None = None
    is_missing: bool = False
    version: str = ""

    def judge(self, scope: Scope, tool: str, args: dict[str, Any]) -> Verdict:
        """Decide one call of a tool that the agent has, with arguments that passed its schema."""
        if self.is_missing:
            return Verdict("deny", None, "there is no actauth.yml; without one every call is denied", self.version)
        matches = self.matches(scope, tool, args)
        if matches:
            return Verdict(matches[0].rule.decision, matches[0].rule.label, _reason(matches[0]), self.version)
        default: Decision = self.default or "deny"
        return Verdict(default, None, f"no rule matched; default is {default}", self.version)

    def current(self) -> RuleSet:
        return self

    def matches(self, scope: Scope, tool: str, args: dict[str, Any]) -> list[Match]:
        """Every rule that applies to the call, the deciding one first."""
        found = [match for rule in self.rules if (match := _match(rule, scope, tool, args)) is not None]
        return sorted(found, key=lambda match: (not _is_final(match.rule), match.rule.rank))

    def guarded_by(self, guardrails: RuleSet) -> RuleSet:
        """These rules together with the project-wide ones. The agent's own default goes before theirs."""
        rules = self.rules + tuple(replace(rule, is_guardrail=True) for rule in guardrails.rules)
        default = self.default if self.default is not None else guardrails.default
        version = ".".join(part for part in (self.version, guardrails.version) if part)
        return replace(self, rules=rules, default=default, version=version)


def _is_final(rule: Rule) -> bool:
    return rule.is_guardrail and rule.decision == "deny"


def _match(rule: Rule, scope: Scope, tool: str, args: dict[str, Any]) -> Match | None:
    written = ((rule.tenant, scope.tenant), (rule.environment, scope.environment), (rule.agent, scope.agent))
    if any(pattern not in ("*", actual) for pattern, actual in written):
        return None
    if not matches_glob(rule.tool, tool):
        return None
    unsure: list[str] = []
    for when in rule.when:
        answers = [(value, when.condition.holds(value)) for value in _values(args, when.path)]
        if rule.decision == "allow":
            # Of several values every one must be allowed, and nothing is allowed for being absent.
            if not answers or any(value is Absent.MISSING or holds is not True for value, holds in answers):
                return None
        elif all(holds is False for _, holds in answers):
            return None
        elif not any(holds for _, holds in answers):
            unsure.append(when.path)
    return Match(rule, tuple(unsure))


def _values(args: dict[str, Any], path: str) -> list[Any]:
    try:
        return list(values_at(args, path.split(".")))
    except RecursionError:  # lists in lists by the hundred: whatever they hold, nothing of it is allowed
        return [Absent.MISFIT]


def _reason(match: Match) -> str:
    reason = f"matched rule '{match.rule.label}'"
    if match.unsure:
        names = ", ".join(match.unsure)
        reason += f" (its condition on {names} does not fit the argument's type and counts as met)"
    return reason
