"""One strict reader for every YAML file a person writes: agent.yml, actauth.yml.

It owns syntax only: what the words mean is the caller's business, who reports a wrong one with
``Document.problem``. Refused, because each has silently changed a meaning somewhere: doubled keys, keys that
are not text, tabs in the indentation, several documents, anchors and aliases, explicit tags, an empty file, more
than 256 KB. Plain words follow YAML 1.2's core schema: ``yes``, ``on``, ``2024-01-01`` and ``007`` are text.
"""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from protocol.errors import ConfigurationError

MAX_BYTES = 256 * 1024
MAX_DEPTH = 32

Where = tuple[str | int, ...]

# libyaml reads 256 KB in well under a second, the pure parser may need several.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_TAB = "found a tab in the indentation, expected spaces"

_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


@dataclass(frozen=True)
class Document:
    """A file that was read. ``lines`` gives the 1-based line of every value by its path in ``data``."""

    file: str
    data: Any
    lines: dict[Where, int] = field(repr=False)
    content: bytes = field(repr=False)

    def line(self, where: Where) -> int:
        while where not in self.lines:
            where = where[:-1]
        return self.lines[where]

    def problem(self, where: Where, words: str) -> ConfigurationError:
        return ConfigurationError(self.file, self.line(where), words)


def read_yaml(path: Path) -> Document:
    """Read one file. Raises FileNotFoundError if there is none, ConfigurationError (file, line) otherwise."""
    return parse_yaml(read_bytes(path), str(path))


def parse_yaml(content: bytes, file: str) -> Document:
    """The document in ``content``; ``file`` is the name that problems are reported under."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(file, line, "found bytes that are not UTF-8, expected UTF-8 text") from None
    builder = _Builder(file, text)
    return Document(file, builder.build(), builder.lines, content)


def describe(value: Any) -> str:
    """A found value in words for an error message: ``the text 'alow'``, ``a list``."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case str():
            shown = value if len(value) <= 40 else value[:37] + "..."
            return f"the text {shown!r}"
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return f"the number {value}"


def read_bytes(path: Path) -> bytes:
    """The bytes of a file of at most MAX_BYTES. Raises like read_yaml."""
    try:
        # Not blocking, so that a FIFO under the name cannot hold the process.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigurationError(str(path), None, "expected a regular file")
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ConfigurationError(str(path), None, f"cannot be read: {error.strerror or error}") from error
    if len(content) > MAX_BYTES:
        raise ConfigurationError(str(path), None, f"expected at most {MAX_BYTES} bytes, found more")
    return content


class _Builder:
    """Turns parser events into plain data, one event at a time and never deeper than MAX_DEPTH."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text
        self.lines: dict[Where, int] = {}
        self._quoted_lines: set[int] = set()
        self._events: Iterator[Any] = iter(())

    def build(self) -> Any:
        try:
            self._events = yaml.parse(self.text, Loader=_LOADER)
            data = self._document()
        except yaml.MarkedYAMLError as error:
            raise self._syntax_problem(error) from None
        except yaml.reader.ReaderError as error:
            line = self.text.count("\n", 0, error.position) + 1
            words = f"found a character that YAML forbids: {error.reason}"
            raise ConfigurationError(self.file, line, words) from None
        self._refuse_tabs()
        return data

    def _document(self) -> Any:
        next(self._events)  # the start of the stream
        start = next(self._events)
        if not isinstance(start, yaml.DocumentStartEvent):
            raise ConfigurationError(self.file, 1, "the file is empty, expected a mapping of settings")
        data = self._value(next(self._events), ())
        next(self._events)  # the end of the document
        after = next(self._events)
        if isinstance(after, yaml.DocumentStartEvent):
            raise self._problem(after, "found a second document (---), expected one")
        return data

    def _value(self, event: Any, where: Where) -> Any:
        self.lines[where] = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise self._problem(
                event,
                "found an anchor or alias (& or *), expected a value (quote text that starts so)",
            )
        if len(where) > MAX_DEPTH:
            raise self._problem(event, f"nested deeper than {MAX_DEPTH} levels")
        if event.tag is not None and event.tag != "!":
            raise self._problem(event, f"found the tag {event.tag!r}, expected a plain value")
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(where)
        return self._mapping(where)

    def _scalar(self, event: Any) -> Any:
        is_plain = event.implicit[0]  # the C parser gives plain scalars an empty style, the Python one None
        if not is_plain:
            self._quoted_lines.update(range(event.start_mark.line, event.end_mark.line + 1))
            return event.value
        return _plain(event.value)

    def _sequence(self, where: Where) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._value(event, (*where, len(items))))
        return items

    def _mapping(self, where: Where) -> dict[str, Any]:
        items: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._key(event)
            if key in items:
                first = self.lines[(*where, key)]
                raise self._problem(event, f"found the key {key!r} again (first on line {first}), expected it once")
            value = self._value(next(self._events), (*where, key))
            self.lines[(*where, key)] = event.start_mark.line + 1
            items[key] = value
        return items

    def _key(self, event: Any) -> str:
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise self._problem(event, "found an anchor or alias as a key, expected text")
        if not isinstance(event, yaml.ScalarEvent) or event.tag not in (None, "!"):
            raise self._problem(event, "found a key that is not text, expected text")
        key = self._scalar(event)
        if not isinstance(key, str):
            raise self._problem(event, f"found {describe(key)} as a key, expected text (quote it)")
        return key

    def _refuse_tabs(self) -> None:
        for number, line in enumerate(self.text.split("\n")):
            indentation = line[: len(line) - len(line.lstrip(" \t"))]
            if "\t" in indentation and number not in self._quoted_lines and line.strip():
                raise ConfigurationError(self.file, number + 1, "found a tab in the indentation, expected spaces")

    def _syntax_problem(self, error: Any) -> ConfigurationError:
        mark = error.problem_mark or error.context_mark
        lines = self.text.rstrip().split("\n")
        number = min(mark.line if mark is not None else 0, len(lines) - 1)  # the parser may point behind the end
        line = lines[number]
        if "\t" in line[: len(line) - len(line.lstrip(" \t"))]:
            return ConfigurationError(self.file, number + 1, "found a tab in the indentation, expected spaces")
        words = ", ".join(part for part in (error.context, error.problem) if part)
        return ConfigurationError(self.file, number + 1, f"not valid YAML: {words}")

    def _problem(self, event: Any, words: str) -> ConfigurationError:
        return ConfigurationError(self.file, event.start_mark.line + 1, words)


def _plain(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    # Longer digits are text: Python refuses to convert thousands of them, and no setting needs them.
    if len(text) <= 40:
        if _INT.fullmatch(text):
            return int(text)
        if _FLOAT.fullmatch(text) and math.isfinite(float(text)):
            return float(text)
    return text
