"""The words of a judgement: for whom a call is made, and what was decided about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Decision = Literal["allow", "ask", "deny"]

DECISIONS: tuple[Decision, ...] = ("allow", "ask", "deny")


@dataclass(frozen=True, slots=True)
class Scope:
    tenant: str
    environment: str
    agent: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """``rule``: the name of the rule that decided, else ``<file>:<line>``; None when the default decided.

    ``reason`` is for people and models; it never quotes an argument. ``version`` identifies the content of the
    rule files that were in force, so that a record of a decision says which text decided it.
    """

    decision: Decision
    rule: str | None
    reason: str
    version: str = ""
