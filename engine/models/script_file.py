"""The file of a scripted model: reads it, refuses what it does not know with file and line.

conversations:
  - match: 'refund.*(?P<order>A-\\d+)'      # regular expression, searched in the user's message
    steps:
      - text: I look that up.
        calls: [{tool: lookup_order, args: {orderId: "${order}"}}]
        sleep: 0.5                          # seconds before the answer
      - text: Order ${order} is refunded.
        stop: end_turn                      # normally follows from the content
  - steps: [{text: Hello!}]                 # the last one may have no match: it answers everything else
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

from engine.models.contract import Stop
from engine.yaml_file import Document, Where, describe, read_yaml
from protocol.errors import ConfigurationError

REFERENCE: Final = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    tool: str
    args: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    text: str
    calls: tuple[ScriptedCall, ...]
    sleep_s: float
    stop: Stop | None


@dataclass(frozen=True, slots=True)
class Conversation:
    match: re.Pattern[str] | None
    steps: tuple[Step, ...]


def load_script(path: Path) -> tuple[Conversation, ...]:
    """Raises ConfigurationError; a script that loads cannot fail later."""
    try:
        document = read_yaml(path)
    except FileNotFoundError:
        raise ConfigurationError(str(path), None, "the script of the scripted model is not there") from None
    return _Reader(document).script()


class _Reader:
    """Checks the document from the top; ``where`` is a value's path, which the document knows the line of."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def script(self) -> tuple[Conversation, ...]:
        data = self._mapping(self._document.data, (), {"conversations"}, {"conversations"})
        items = self._list(data["conversations"], ("conversations",))
        conversations = [self._conversation(item, ("conversations", n)) for n, item in enumerate(items)]
        for number, conversation in enumerate(conversations[:-1]):
            if conversation.match is None:
                words = "found a conversation without `match`, which answers everything, expected it to be the last"
                raise self._document.problem(("conversations", number), words)
        return tuple(conversations)

    def _conversation(self, data: Any, where: Where) -> Conversation:
        data = self._mapping(data, where, {"match", "steps"}, {"steps"})
        match = self._pattern(data["match"], (*where, "match")) if "match" in data else None
        names = set(match.groupindex) if match is not None else set()
        steps_at = (*where, "steps")
        steps = self._list(data["steps"], steps_at)
        return Conversation(match, tuple(self._step(step, (*steps_at, n), names) for n, step in enumerate(steps)))

    def _step(self, data: Any, where: Where, names: set[str]) -> Step:
        data = self._mapping(data, where, {"text", "calls", "sleep", "stop"}, set())
        text = self._text(data["text"], (*where, "text"), names) if "text" in data else ""
        calls_at = (*where, "calls")
        calls = self._list(data["calls"], calls_at) if "calls" in data else []
        if not text.strip() and not calls:
            raise self._document.problem(where, "found a step that says nothing, expected `text` or `calls`")
        return Step(
            text,
            tuple(self._call(call, (*calls_at, n), names) for n, call in enumerate(calls)),
            self._sleep(data.get("sleep", 0), (*where, "sleep")),
            self._stop(data["stop"], (*where, "stop")) if "stop" in data else None,
        )

    def _call(self, data: Any, where: Where, names: set[str]) -> ScriptedCall:
        data = self._mapping(data, where, {"tool", "args"}, {"tool"})
        args = data.get("args", {})
        if not isinstance(args, dict):
            raise self._document.problem((*where, "args"), f"found {describe(args)}, expected a mapping")
        for text in _texts_in(args):
            self._check_references(text, (*where, "args"), names)
        return ScriptedCall(self._text(data["tool"], (*where, "tool"), set()), args)

    def _pattern(self, data: Any, where: Where) -> re.Pattern[str]:
        if not isinstance(data, str):
            raise self._document.problem(where, f"found {describe(data)}, expected a regular expression as text")
        try:
            return re.compile(data, re.IGNORECASE | re.DOTALL)
        except re.error as error:
            words = f"found {describe(data)}, expected a regular expression: {error}"
            raise self._document.problem(where, words) from None

    def _text(self, data: Any, where: Where, names: set[str]) -> str:
        if not isinstance(data, str):
            raise self._document.problem(where, f"found {describe(data)}, expected text (quote it)")
        self._check_references(data, where, names)
        return data

    def _check_references(self, text: str, where: Where, names: set[str]) -> None:
        for name in REFERENCE.findall(text):
            if name not in names:
                known = ", ".join(sorted(names)) or "none here"
                raise self._document.problem(where, f"found ${{{name}}}, expected a named group of `match`: {known}")

    def _sleep(self, data: Any, where: Where) -> float:
        if isinstance(data, bool) or not isinstance(data, int | float) or data < 0:
            raise self._document.problem(where, f"found {describe(data)}, expected seconds, 0 or more")
        return float(data)

    def _stop(self, data: Any, where: Where) -> Stop:
        known: tuple[Stop, ...] = get_args(Stop)
        for stop in known:
            if stop == data:
                return stop
        raise self._document.problem(where, f"found {describe(data)}, expected one of {', '.join(known)}")

    def _mapping(self, data: Any, where: Where, known: set[str], needed: set[str]) -> dict[str, Any]:
        expected = ", ".join(f"`{name}`" for name in sorted(known))
        if not isinstance(data, dict):
            raise self._document.problem(where, f"found {describe(data)}, expected a mapping with {expected}")
        for name in data:
            if name not in known:
                raise self._document.problem((*where, name), f"found the unknown key {name!r}, expected {expected}")
        for name in sorted(needed - data.keys()):
            raise self._document.problem(where, f"expected the key `{name}` here, found none")
        return data

    def _list(self, data: Any, where: Where) -> list[Any]:
        if not isinstance(data, list) or not data:
            found = "an empty list" if data == [] else describe(data)
            raise self._document.problem(where, f"found {found}, expected a list")
        return data


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(item)
