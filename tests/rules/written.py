"""Rules for tests, written as people write them."""

from __future__ import annotations

from engine.rules.load import parse_rules
from engine.rules.ruleset import RuleSet
from engine.rules.verdict import Scope

PRODUCTION = Scope("acme", "production", "shop")


def rules(text: str) -> RuleSet:
    return parse_rules(text.encode(), "actauth.yml", "actauth.yml")


def one_rule(when: str, decision: str) -> RuleSet:
    """One rule with a condition, and the opposite as the default."""
    default = "deny" if decision == "allow" else "allow"
    return rules(f'default_decision: {default}\nrules:\n  - {{tool: "*", decision: {decision}, when: {when}}}\n')
