"""Reading actauth.yml: every mistake is refused with file, line, what was found and what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.rules.load import load_rules, parse_rules
from protocol.errors import ConfigurationError

RULE = "rules:\n  - tool: x\n    decision: allow\n"

REFUSED: list[tuple[str, int, str]] = [
    ("", 1, "the file is empty"),
    ("# only words\n", 1, "the file is empty"),
    ("- a\n", 1, "found a list, expected a mapping"),
    ("default: ask\n", 1, "found 'default', expected one of default_decision, rules (did you mean"),
    ("default_decision: alow\n", 1, "found the text 'alow' as 'default_decision', expected one of allow, ask, deny"),
    ("default_decision: true\n", 1, "found true"),
    ("rules: {a: b}\n", 1, "expected a list of rules"),
    ("rules:\n  - x\n", 2, "found the text 'x', expected a rule"),
    ("rules:\n  - tool: x\n", 2, "found a rule without 'decision'"),
    ("rules:\n  - decision: deny\n", 2, "found a rule without 'tool'"),
    (RULE + "    enviroment: prod\n", 4, "found 'enviroment', expected one of"),
    (RULE + "    scope: production\n", 4, "found the scope 'production'"),
    (RULE + "    scope: a/b/c/d\n", 4, "found the scope 'a/b/c/d'"),
    (RULE + "    scope: /b\n", 4, "found the scope '/b'"),
    (RULE + '    scope: "acme*/b"\n', 4, "each part a name or *"),
    (RULE + "    scope: {tenant: a}\n", 4, "found a mapping as the scope"),
    (RULE + "    name: 5\n", 4, "found the number 5 as 'name', expected text"),
    (RULE + "    when: {}\n", 4, "expected argument: condition"),
    (RULE + "    when:\n      a..b: x\n", 5, "found the argument path 'a..b'"),
    (RULE + "    when:\n      a: {gt: many}\n", 5, "found the text 'many' after 'gt', expected a number"),
    (RULE + "    when:\n      a: {greater: 5}\n", 5, "found 'greater', expected one of eq, ne"),
    (RULE + "    when:\n      a: []\n", 5, "found an empty list"),
    (RULE + "    when:\n      a: {eq: [1]}\n", 5, "expected text, a number"),
    ("rules:\n  - tool: x\n    decision: deny\n    decision: deny\n", 4, "found the key 'decision' again"),
    ("rules: []\nrules: []\n", 2, "found the key 'rules' again (first on line 1)"),
    ("rules:\n\t- {tool: x}\n", 2, "found a tab in the indentation"),
    ("rules: [\n\t{tool: x}]\n", 2, "found a tab in the indentation"),
    ("rules: []\n---\nrules: []\n", 2, "found a second document"),
    ("1: x\n", 1, "found the number 1 as a key"),
    ("true: x\n", 1, "found true as a key"),
    ("? [a]\n: x\n", 1, "found a key that is not text"),
    ("rules: !!python/object/apply:os.system [x]\n", 1, "found the tag"),
    ("a: &a [x]\nrules: *a\n", 1, "found an anchor or alias"),
    ("<<: {rules: []}\n", 1, "found '<<'"),
    ("rules: [\n", 1, "not valid YAML"),
    ("rules: " + "[" * 40, 1, "nested deeper than 32 levels"),
    ("rules: []\nx: \x07\n", 2, "a character that YAML forbids"),
]


@pytest.mark.parametrize(("text", "line", "problem"), REFUSED)
def test_a_mistake_is_refused_with_its_file_and_line(text: str, line: int, problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_rules(text.encode(), "shop/actauth.yml", "actauth.yml")
    assert (caught.value.file, caught.value.line) == ("shop/actauth.yml", line)
    assert problem in caught.value.problem


def test_bytes_that_are_not_utf8_are_refused_with_their_line() -> None:
    with pytest.raises(ConfigurationError, match="f:2: found bytes that are not UTF-8"):
        parse_rules(b"rules: []\n# \xff\n", "f", "f")


def test_aliases_of_aliases_are_refused_before_they_grow() -> None:
    bomb = "a: &a [x, x, x, x]\n" + "".join(
        f"{b}: &{b} [{f'*{a}, ' * 9}*{a}]\n" for a, b in zip("abcdefg", "bcdefgh", strict=True)
    )
    with pytest.raises(ConfigurationError, match="f:1: found an anchor or alias"):
        parse_rules(bomb.encode(), "f", "f")


def test_a_file_of_more_than_256_kb_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "actauth.yml"
    path.write_text("rules: []\n" + "#" * 5_000_000)
    with pytest.raises(ConfigurationError, match="expected at most 262144 bytes"):
        load_rules(path)


def test_a_folder_or_an_unreadable_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError):
        load_rules(tmp_path)


def test_a_missing_file_is_a_rule_set_that_denies_everything(tmp_path: Path) -> None:
    assert load_rules(tmp_path / "actauth.yml").is_missing


def test_a_plain_rule_needs_only_a_tool_and_a_decision() -> None:
    (rule,) = parse_rules(RULE.encode(), "f", "label.yml").rules
    assert (rule.scope, rule.tool, rule.decision, rule.label) == ("*/*", "x", "allow", "label.yml:2")


def test_words_that_yaml_1_1_changes_stay_text() -> None:
    text = "rules:\n- {tool: on, decision: allow, when: {day: 2024-01-01, code: 007, time: 1:30, yes: no}}\n"
    (rule,) = parse_rules(text.encode(), "f", "f").rules
    assert rule.tool == "on"
    assert [str(when.condition) for when in rule.when] == [
        "Glob(pattern='2024-01-01')",
        "Glob(pattern='007')",
        "Glob(pattern='1:30')",
        "Glob(pattern='no')",
    ]
