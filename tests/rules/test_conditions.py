"""Conditions on arguments. An allow needs certainty, an ask or a deny only doubt."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rules.written import PRODUCTION, one_rule

MATCHING: list[tuple[str, Any]] = [
    ('{key: "prod/*"}', {"key": "prod/a/b\nc"}),
    ('{key: "*x*"}', {"key": "axb"}),
    ('{key: "[ab]?"}', {"key": "b1"}),
    ("{key: 5}", {"key": 5.0}),
    ("{key: true}", {"key": True}),
    ("{key: null}", {"key": None}),
    ("{key: {gt: 100}}", {"key": 100.5}),
    ("{key: {gte: 1, lt: 5}}", {"key": 1}),
    ("{key: {lte: 5}}", {"key": 5}),
    ('{key: {eq: "a*"}}', {"key": "a*"}),
    ("{key: {ne: 5}}", {"key": 6}),
    ('{key: {in: [a, "b*"]}}', {"key": "b*"}),
    ('{key: {not: "prod/*"}}', {"key": "dev"}),
    ('{key: ["a*", {gt: 3}]}', {"key": "abc"}),
    ("{order.id: A}", {"order": {"id": "A"}}),
    ("{items.sku: A}", {"items": [{"sku": "A"}, {"sku": "A"}]}),
    ("{items.1: B}", {"items": ["A", "B"]}),
    ("{a: 1, b: 2}", {"a": 1, "b": 2}),
]
NOT_MATCHING: list[tuple[str, Any]] = [
    ('{key: "prod/*"}', {"key": "prod"}),
    ('{key: "prod/*"}', {"key": "Prod/x"}),
    ("{key: true}", {"key": 1}),
    ("{key: 1}", {"key": True}),
    ("{key: 5}", {"key": "5"}),
    ("{key: {gt: 100}}", {"key": 100}),
    ('{key: {eq: "a*"}}', {"key": "ab"}),
    ('{key: {in: [a, "b*"]}}', {"key": "bx"}),
    ("{key: {gte: 1, lt: 5}}", {"key": 5}),
    ("{a: 1, b: 2}", {"a": 1, "b": 3}),
    ("{key: x}", {}),
    ("{order.id: A}", {"order": {}}),
]
NOT_EVALUABLE: list[tuple[str, Any]] = [
    ("{key: {gt: 100}}", {"key": "1000"}),
    ("{key: {gt: 100}}", {"key": None}),
    ("{key: {gt: 100}}", {"key": True}),
    ("{key: {not: {gt: 100}}}", {"key": "1"}),
    ('{key: "prod/*"}', {"key": {"a": 1}}),
    ('{key: "5*"}', {"key": 50}),
    ("{order.id: A}", {"order": "A"}),
]


def is_matched(when: str, args: dict[str, Any], decision: str) -> bool:
    return one_rule(when, decision).judge(PRODUCTION, "pay", args).decision == decision


@pytest.mark.parametrize("decision", ["allow", "ask", "deny"])
@pytest.mark.parametrize(("when", "args"), MATCHING)
def test_a_condition_that_holds_lets_the_rule_decide(when: str, args: dict[str, Any], decision: str) -> None:
    assert is_matched(when, args, decision)


@pytest.mark.parametrize("decision", ["allow", "ask", "deny"])
@pytest.mark.parametrize(("when", "args"), NOT_MATCHING)
def test_a_condition_that_does_not_hold_keeps_the_rule_out(when: str, args: dict[str, Any], decision: str) -> None:
    assert not is_matched(when, args, decision)


@pytest.mark.parametrize(("when", "args"), NOT_EVALUABLE)
def test_what_cannot_be_evaluated_is_denied_and_asked_but_never_allowed(when: str, args: dict[str, Any]) -> None:
    assert is_matched(when, args, "deny")
    assert is_matched(when, args, "ask")
    assert not is_matched(when, args, "allow")


def test_the_reason_says_that_a_condition_could_not_be_evaluated() -> None:
    verdict = one_rule("{amount: {gt: 100}}", "deny").judge(PRODUCTION, "pay", {"amount": "1000"})
    assert "condition on amount does not fit the argument's type" in verdict.reason


def test_of_several_values_one_bad_one_denies_and_all_must_be_good_to_allow() -> None:
    args = {"to": ["a@ours.example", "b@evil.example"]}
    assert is_matched('{to: "*@evil.example"}', args, "deny")
    assert not is_matched('{to: "*@ours.example"}', args, "allow")
    assert is_matched('{to: "*.example"}', args, "allow")
    assert not is_matched('{to: "*"}', {"to": []}, "allow")


@pytest.mark.parametrize("when", ["{key: {ne: x}}", "{key: {not: x}}"])
def test_a_missing_argument_is_never_allowed_but_counts_as_different_for_a_denial(when: str) -> None:
    assert not is_matched(when, {}, "allow")
    assert is_matched(when, {}, "deny")


def test_a_dotted_name_cannot_hide_a_nested_argument() -> None:
    args = {"order": {"id": "prod"}, "order.id": "safe"}
    assert is_matched("{order.id: prod}", args, "deny")
    assert not is_matched("{order.id: safe}", args, "allow")


def test_arguments_nested_by_the_thousand_are_judged_and_never_allowed() -> None:
    nested: list[Any] = []
    for _ in range(5_000):
        nested = [nested]
    assert not is_matched('{key: "*"}', {"key": nested}, "allow")
    assert is_matched('{key: "x"}', {"key": nested}, "deny")


@pytest.mark.parametrize("odd", ["*", "?", "[a]", "a\\*", "line\nbreak", "a*b"])
def test_a_literal_condition_matches_that_text_only(odd: str) -> None:
    when = f"{{key: {{eq: {odd!r}}}}}" if "\n" not in odd else '{key: {eq: "line\\nbreak"}}'
    assert is_matched(when.replace("\\\\", "\\"), {"key": odd}, "allow")
    for near in (odd + "x", odd[:-1], "xx", odd.replace("*", "zz").replace("?", "z").replace("[a]", "a") + "z"):
        assert not is_matched(when.replace("\\\\", "\\"), {"key": near}, "allow")
