"""Permission rules: who may have which tool called, decided before anything runs (actauth.yml)."""

from engine.rules.explain import explain
from engine.rules.live import LiveRules
from engine.rules.load import load_rules
from engine.rules.ruleset import Rules, RuleSet
from engine.rules.verdict import Decision, Scope, Verdict

__all__ = ["Decision", "LiveRules", "RuleSet", "Rules", "Scope", "Verdict", "explain", "load_rules"]
