"""Finds rules that can never speak up, for ``check``: a misspelt tool or argument makes a gate silently stand open.

Only a suspicion, never an error: the rules stay what they are. A glob may be there for tools to come, and the
project-wide file speaks of other agents' tools, so neither has to match a tool of this agent.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping

from engine.rules.globs import matches_glob
from engine.rules.ruleset import Rule, RuleSet
from engine.tools.tool import Tool


def idle_rules(rules: RuleSet, tools: Mapping[str, Tool]) -> Iterator[tuple[Rule, str]]:
    """Each rule that names a tool or an argument that is not there, with what is wrong in words for the author."""
    for rule in rules.rules:
        if rule.is_guardrail:
            continue
        meant = [tool for name, tool in tools.items() if matches_glob(rule.tool, name)]
        if not meant and not any(char in rule.tool for char in "*?["):
            yield rule, f"the rule is never used: there is no tool {rule.tool!r}{_close(rule.tool, tools)}"
        for when in rule.when:
            if meant and not any(_takes(tool, when.path) for tool in meant):
                known = sorted({name for tool in meant for name in _arguments(tool)})
                names = f"{rule.tool} has no argument {when.path!r}"
                yield rule, f"the rule's condition is on nothing: {names}{_close(when.path, known)}"


def _takes(tool: Tool, path: str) -> bool:
    parts = path.split(".")
    roots = {".".join(parts[:n]) for n in range(1, len(parts) + 1)}
    return tool.input_schema.get("additionalProperties") is not False or bool(roots & set(_arguments(tool)))


def _arguments(tool: Tool) -> Iterable[str]:
    properties: Mapping[str, object] = tool.input_schema.get("properties", {})
    return properties


def _close(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), 1)
    return f" (did you mean {close[0]!r}?)" if close else ""
