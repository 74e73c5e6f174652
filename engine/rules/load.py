"""From the text of an actauth.yml to a RuleSet. Every problem names file, line, what was found and expected.

default_decision: deny            # allow, ask or deny; not given: deny
rules:
  - name: refunds-need-approval   # optional
    scope: "*/production"         # tenant/environment or tenant/environment/agent; not given: */*
    tool: "issue_*"               # a glob
    when: {amount: {gt: 100}}     # optional: argument path -> condition
    decision: ask
"""

from __future__ import annotations

import difflib
import hashlib
from pathlib import Path
from typing import Any, cast

from engine.rules.conditions import read_condition
from engine.rules.ruleset import Rule, RuleSet, When
from engine.rules.verdict import DECISIONS, Decision
from engine.yaml_file import Document, Where, describe, parse_yaml, read_bytes

_FILE_WORDS = ("default_decision", "rules")
_RULE_WORDS = ("name", "scope", "tool", "decision", "when")


def load_rules(path: Path, label: str | None = None) -> RuleSet:
    """The rules of one file; of a missing file: rules that deny everything.

    ``label`` is the file's name in verdicts (default: its last part). Raises ConfigurationError.
    """
    try:
        content = read_bytes(path)
    except FileNotFoundError:
        return RuleSet(is_missing=True)
    return parse_rules(content, str(path), label or path.name)


def parse_rules(content: bytes, file: str, label: str) -> RuleSet:
    """The rules in ``content``; problems name ``file``, unnamed rules are called ``<label>:<line>``."""
    document = parse_yaml(content, file)
    data = document.data
    if not isinstance(data, dict):
        raise document.problem((), f"found {describe(data)}, expected a mapping with {' and '.join(_FILE_WORDS)}")
    _refuse_unknown_words(document, (), data, _FILE_WORDS)
    default = _decision(document, ("default_decision",), data) if "default_decision" in data else None
    written = data.get("rules") or []
    if not isinstance(written, list):
        raise document.problem(("rules",), f"found {describe(written)} under 'rules', expected a list of rules")
    rules = tuple(_rule(document, ("rules", n), one, label) for n, one in enumerate(written))
    return RuleSet(rules, default, version=hashlib.sha256(content).hexdigest()[:12])


def _rule(document: Document, where: Where, written: Any, label: str) -> Rule:
    if not isinstance(written, dict):
        raise document.problem(where, f"found {describe(written)}, expected a rule (a mapping)")
    _refuse_unknown_words(document, where, written, _RULE_WORDS)
    tenant, environment, agent = _scope(document, (*where, "scope"), written.get("scope", "*/*"))
    return Rule(
        tool=_text(document, where, written, "tool"),
        decision=_decision(document, (*where, "decision"), written),
        tenant=tenant,
        environment=environment,
        agent=agent,
        when=_when(document, (*where, "when"), written["when"]) if "when" in written else (),
        name=_text(document, where, written, "name") if "name" in written else None,
        file=label,
        line=document.line(where),
    )


def _refuse_unknown_words(document: Document, where: Where, written: dict[str, Any], known: tuple[str, ...]) -> None:
    for word in written:
        if word not in known:
            close = difflib.get_close_matches(word, known, 1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise document.problem((*where, word), f"found {word!r}, expected one of {', '.join(known)}{hint}")


def _text(document: Document, where: Where, written: dict[str, Any], word: str) -> str:
    value = written.get(word)
    if word not in written:
        raise document.problem(where, f"found a rule without {word!r}, expected one")
    if not isinstance(value, str) or not value.strip():
        raise document.problem((*where, word), f"found {describe(value)} as {word!r}, expected text")
    return value


def _decision(document: Document, where: Where, written: dict[str, Any]) -> Decision:
    word = str(where[-1])
    if word not in written:
        raise document.problem(where, f"found a rule without {word!r}, expected {', '.join(DECISIONS)}")
    if written[word] not in DECISIONS:
        raise document.problem(
            where, f"found {describe(written[word])} as {word!r}, expected one of {', '.join(DECISIONS)}"
        )
    return cast(Decision, written[word])


def _scope(document: Document, where: Where, written: Any) -> tuple[str, str, str]:
    expected = 'expected "tenant/environment" or "tenant/environment/agent", each part a name or *'
    if not isinstance(written, str):
        raise document.problem(where, f"found {describe(written)} as the scope, {expected}")
    parts = written.split("/")
    for part in parts:
        is_pattern = part != "*" and any(char in part for char in "*?[")
        if not part or part != part.strip() or is_pattern:
            raise document.problem(where, f"found the scope {written!r}, {expected}")
    if len(parts) not in (2, 3):
        raise document.problem(where, f"found the scope {written!r}, {expected}")
    return parts[0], parts[1], parts[2] if len(parts) == 3 else "*"


def _when(document: Document, where: Where, written: Any) -> tuple[When, ...]:
    if not isinstance(written, dict) or not written:
        raise document.problem(where, f"found {describe(written)} under 'when', expected argument: condition")
    for path in written:
        if not all(path.split(".")):
            raise document.problem((*where, path), f"found the argument path {path!r}, expected names joined by dots")
    return tuple(When(path, read_condition(document, (*where, path), written[path])) for path in written)
