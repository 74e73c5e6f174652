"""What a tool returned, as the text that the model gets. Made safe here, once, and never again.

str                          as it is; half a surrogate pair becomes U+FFFD, control characters stay
None, "", only white space   "(no output)"
bool, int, list, tuple       JSON
float                        JSON; NaN and the infinities become null
Decimal                      text, so that no digit is lost; NaN and the infinities become null
date, time, datetime         ISO 8601 text; timedelta likewise ("PT1S")
bytes, bytearray             {"type": "bytes", "base64": "..."}
set, frozenset               a list, sorted by its items' JSON
Enum                         its value; UUID and Path: text
dataclass, pydantic model    an object of its fields
mapping                      an object; keys that are numbers, true, null, dates ... become text
anything else                refused, and so is what contains itself or has two keys with one text
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import json
import math
import unicodedata
import uuid
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

MAX_CHARS = 50_000
NO_OUTPUT = "(no output)"

_MAX_DEPTH = 100
_TAIL_SHARE = 5  # a fifth of a cut output is its end, where totals and errors stand


class Unrenderable(Exception):
    """The value has no form in JSON; ``str()`` says which part of it and why."""


def render(value: Any) -> str:
    """The whole text for a returned value, not cut. Raises Unrenderable."""
    if value is None:
        return NO_OUTPUT
    text = clean_text(value) if type(value) is str else _to_text(value)
    return text if text.strip() else NO_OUTPUT


def clean_text(text: str) -> str:
    """The text as valid Unicode: surrogate pairs joined, half ones replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def cut(text: str, limit: int = MAX_CHARS) -> str:
    """At most ``limit`` characters: head and tail with a note between, never half of a combined character."""
    if len(text) <= limit:
        return text
    note = f"\n[... {len(text):,} characters in all, the middle is left out ...]\n"
    room = max(limit - len(note), 0)
    tail = room // _TAIL_SHARE
    end, start = room - tail, len(text) - tail
    while end > 0 and _continues(text, end) and room - tail - end < 32:
        end -= 1
    while start < len(text) and _continues(text, start) and start - (len(text) - tail) < 32:
        start += 1
    return text[:end] + note + text[start:]


def _continues(text: str, at: int) -> bool:
    """Whether the character at ``at`` belongs to the one before it (an accent, a joiner, a skin tone)."""
    return (
        any(
            unicodedata.combining(char)
            or char == "\u200d"
            or "\ufe00" <= char <= "\ufe0f"
            or "\U0001f3fb" <= char <= "\U0001f3ff"
            for char in text[at : at + 1]
        )
        or text[at - 1 : at] == "\u200d"
    )


def _to_text(value: Any) -> str:
    plain = _plain(value, "result", ())
    try:
        return json.dumps(plain, ensure_ascii=False, allow_nan=False)
    except ValueError as error:  # an integer of more digits than Python converts
        raise Unrenderable(f"the result cannot be written as JSON: {error}") from error


def _plain(value: Any, where: str, above: tuple[int, ...]) -> Any:
    """``value`` in what JSON has. ``above``: identities of the containers around it, to notice a cycle."""
    match value:
        case enum.Enum():
            return _plain(value.value, where, above)
        case None | bool() | int():
            return value
        case str():
            return clean_text(str(value))
        case float():
            return value if math.isfinite(value) else None
        case decimal.Decimal():
            return str(value) if value.is_finite() else None
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case datetime.timedelta():
            return to_jsonable_python(value)
        case uuid.UUID() | PurePath():
            return clean_text(str(value))
        case bytes() | bytearray() | memoryview():
            return {"type": "bytes", "base64": base64.b64encode(value).decode()}
    if id(value) in above:
        raise Unrenderable(f"{where} contains itself")
    if len(above) >= _MAX_DEPTH:
        raise Unrenderable(f"{where[:80]}... is nested deeper than {_MAX_DEPTH} levels")
    return _plain_container(value, where, (*above, id(value)))


def _plain_container(value: Any, where: str, above: tuple[int, ...]) -> Any:
    match value:
        case list() | tuple():
            return [_plain(item, f"{where}[{n}]", above) for n, item in enumerate(value)]
        case set() | frozenset():
            items = [_plain(item, f"{where}{{}}", above) for item in value]
            return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))
        case Mapping():
            return _plain_object(value.items(), where, above)
        case BaseModel():
            fields = {**{name: getattr(value, name) for name in type(value).model_fields}, **(value.model_extra or {})}
            return _plain_object(fields.items(), where, above)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain_object(((one.name, getattr(value, one.name)) for one in dataclasses.fields(value)), where, above)
    raise Unrenderable(f"{where} is of type {type(value).__name__}, which has no form in JSON")


def _plain_object(items: Iterable[tuple[Any, Any]], where: str, above: tuple[int, ...]) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    for key, value in items:
        text = _key(key, where, above)
        if text in answer:
            raise Unrenderable(f"{where} has two keys that both become {text!r}")
        answer[text] = _plain(value, f"{where}.{text[:40]}", above)
    return answer


def _key(key: Any, where: str, above: tuple[int, ...]) -> str:
    plain = _plain(key, f"a key of {where}", above)
    if isinstance(plain, list | dict):
        raise Unrenderable(f"{where} has a key of type {type(key).__name__}, expected text")
    return plain if isinstance(plain, str) else json.dumps(plain)
