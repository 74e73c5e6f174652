"""Which rule decides a call: scopes, strictness, guardrails, defaults."""

from __future__ import annotations

import itertools
import random

import pytest

from engine.rules.ruleset import RuleSet
from engine.rules.verdict import Decision, Scope, Verdict
from tests.rules.written import PRODUCTION, rules

SCOPES = ("*/*", "*/*/shop", "*/production", "*/production/shop", "acme/*", "acme/*/shop", "acme/production")


def judge(text: str, tool: str = "pay", scope: Scope = PRODUCTION) -> Decision:
    return rules(text).judge(scope, tool, {}).decision


def test_without_any_rule_everything_is_denied() -> None:
    verdict = rules("rules: []").judge(PRODUCTION, "pay", {})
    assert (verdict.decision, verdict.rule) == ("deny", None)
    assert verdict.reason == "no rule matched; default is deny"


def test_the_default_decides_what_no_rule_names() -> None:
    verdict = rules("default_decision: ask").judge(PRODUCTION, "pay", {})
    assert (verdict.decision, verdict.reason) == ("ask", "no rule matched; default is ask")


def test_a_missing_file_denies_everything_and_says_so() -> None:
    verdict = RuleSet(is_missing=True).judge(PRODUCTION, "pay", {})
    assert verdict == Verdict("deny", None, "there is no actauth.yml; without one every call is denied")


def test_the_verdict_names_the_rule_or_else_its_file_and_line() -> None:
    found = rules("rules:\n- {tool: pay, decision: ask}\n- {name: reads, tool: get_*, decision: allow}\n")
    assert found.judge(PRODUCTION, "pay", {}).rule == "actauth.yml:2"
    assert found.judge(PRODUCTION, "get_it", {}).reason == "matched rule 'reads'"


@pytest.mark.parametrize(("wide", "narrow"), list(itertools.combinations(SCOPES, 2)))
@pytest.mark.parametrize("decisions", [("deny", "allow"), ("allow", "deny"), ("ask", "allow")])
def test_the_more_specific_scope_decides_whatever_it_says(
    wide: str, narrow: str, decisions: tuple[Decision, Decision]
) -> None:
    written = [
        f'- {{scope: "{wide}", tool: pay, decision: {decisions[0]}}}',
        f'- {{scope: "{narrow}", tool: pay, decision: {decisions[1]}}}',
    ]
    for order in (written, written[::-1]):
        assert judge("rules:\n" + "\n".join(order)) == decisions[1]


@pytest.mark.parametrize("tool", ["pay", "pay_all", "look", "x"])
def test_within_one_scope_the_order_of_the_file_never_matters(tool: str) -> None:
    written = [
        "- {tool: '*', decision: allow}",
        "- {tool: 'pay*', decision: ask}",
        "- {tool: '*_all', decision: deny}",
        "- {tool: 'look', decision: allow}",
    ]
    expected = {"pay": "ask", "pay_all": "deny", "look": "allow", "x": "allow"}[tool]
    for order in itertools.permutations(written):
        assert judge("rules:\n" + "\n".join(order), tool) == expected


@pytest.mark.parametrize(
    "scope",
    [Scope("bolt", "production", "shop"), Scope("acme", "staging", "shop"), Scope("acme", "production", "other")],
)
def test_a_rule_of_another_tenant_environment_or_agent_does_not_apply(scope: Scope) -> None:
    assert judge("rules: [{scope: acme/production/shop, tool: pay, decision: allow}]", scope=scope) == "deny"


@pytest.mark.parametrize("tool", ["PAY", "pay ", " pay", "pay\n", "p\u0430y", "pays"])
def test_a_tool_name_that_only_looks_the_same_matches_no_rule(tool: str) -> None:
    assert judge("rules: [{tool: pay, decision: allow}]", tool) == "deny"


def test_a_denial_of_the_project_is_final_even_for_a_narrower_allow() -> None:
    project = rules("rules: [{name: never, tool: '*_all', decision: deny}]")
    agent = rules("rules: [{scope: acme/production/shop, tool: '*', decision: allow}]")
    verdict = agent.guarded_by(project).judge(PRODUCTION, "wipe_all", {})
    assert (verdict.decision, verdict.rule) == ("deny", "never")
    assert agent.guarded_by(project).judge(PRODUCTION, "pay", {}).decision == "allow"


def test_the_projects_other_rules_hold_beside_the_agents_own() -> None:
    project = rules("default_decision: ask\nrules: [{tool: look, decision: allow}]")
    agent = rules("rules: [{tool: unrelated, decision: deny}]")
    combined = agent.guarded_by(project)
    assert combined.judge(PRODUCTION, "look", {}).decision == "allow"
    assert combined.judge(PRODUCTION, "pay", {}).decision == "ask"


def test_an_agent_without_a_file_is_denied_everything_whatever_the_project_allows() -> None:
    project = rules("default_decision: allow\nrules: [{tool: look, decision: allow}]")
    assert RuleSet(is_missing=True).guarded_by(project).judge(PRODUCTION, "look", {}).decision == "deny"


def test_all_combinations_of_levels_follow_the_one_documented_table() -> None:
    levels = {"tenant": "acme/*", "environment": "*/production", "agent": "*/*/shop"}
    for chosen in itertools.product(("allow", "deny", None), repeat=3):
        written = [
            f'- {{scope: "{scope}", tool: pay, decision: {decision}}}'
            for scope, decision in zip(levels.values(), chosen, strict=True)
            if decision
        ]
        random.Random(str(chosen)).shuffle(written)
        expected = next((decision for decision in chosen if decision), "ask")
        assert judge("default_decision: ask\nrules:\n" + "\n".join(written or ["  []"])) == expected


def test_the_version_says_which_text_decided() -> None:
    first, same, other = (rules(text) for text in ("rules: []", "rules: []", "rules: [] # changed"))
    versions = [one.judge(PRODUCTION, "pay", {}).version for one in (first, same, other)]
    assert versions[0] == versions[1] != versions[2]
    assert all(versions)
