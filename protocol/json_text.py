"""JSON as this product writes and reads it.

Written: one line of plain ASCII, so that no reader, however it splits lines or decodes bytes, can tear an event
apart. Read: strictly, because a request that two parsers understand differently is a request nobody approved.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from json.encoder import encode_basestring_ascii
from typing import Any, NoReturn

import orjson

from protocol.errors import MalformedRequest

MAX_DEPTH = 64
WRITE_DEPTH = 200
"""orjson gives up at 254 levels; what lies deeper than this becomes null."""

_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1

# DEL goes with the others: it is ASCII, but a control character, which JSON alone would let through raw.
_UNPRINTED = re.compile(r"[^\x00-\x7e]+")
# Unterminated strings match up to the end, and `++` never gives back: linear on any input.
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+("\s*:|"?)|[\[\]{}]', re.DOTALL)
_WORD = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[^\s"\[\]{},:]++', re.DOTALL)
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


def dumps(value: Any) -> bytes:
    """Compact ASCII JSON in one line. ``orjson.Fragment`` members pass through.

    Never fails on what JSON cannot hold but Python values do: NaN and infinities become null, lone surrogates
    U+FFFD, integers beyond 64 bits the nearest double (which is what readers make of them, so that what is
    shown is what is later run), anything nested deeper than ``WRITE_DEPTH`` null. TypeError for objects that
    are not JSON at all: a mistake of the caller.
    """
    return _ascii(_encode(value, None))


def canonical(value: Any) -> bytes:
    """Like ``dumps`` with sorted keys: equal values give equal bytes, also after a round trip through JSON."""
    return _ascii(_encode(value, orjson.OPT_SORT_KEYS))


def digest_of(tool: str, args: dict[str, Any]) -> str:
    """32 hex digits that stand for this tool with exactly these arguments."""
    return hashlib.sha256(canonical([tool, args])).hexdigest()[:32]


def _encode(value: Any, option: int | None) -> bytes:
    try:
        return orjson.dumps(value, option=option)
    except TypeError:
        return orjson.dumps(_made_safe(value, WRITE_DEPTH), option=option)


def _ascii(raw: bytes) -> bytes:
    if raw.isascii() and b"\x7f" not in raw:
        return raw
    return _UNPRINTED.sub(_escaped, raw.decode()).encode("ascii")


def _escaped(run: re.Match[str]) -> str:
    return encode_basestring_ascii(run[0])[1:-1]


def _made_safe(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, int) and not _INT_MIN <= value <= _INT_MAX:
        try:
            return float(value)
        except OverflowError:
            return None
    if isinstance(value, dict | list | tuple) and depth == 0:
        return None
    if isinstance(value, dict):
        return {_made_safe(key, 0): _made_safe(item, depth - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_made_safe(item, depth - 1) for item in value]
    return value


def loads_strict(data: bytes | str, max_depth: int = MAX_DEPTH) -> Any:
    """The value of one JSON text, or MalformedRequest that says what is wrong and at which line and column.

    Refused besides broken syntax: bytes that are not UTF-8, a byte order mark, NaN and Infinity, numbers too
    large for a double or, as integers, for 64 bits, a key given twice in one object, escapes that are half of
    a surrogate pair, more than ``max_depth`` levels of nesting.
    """
    text = _decoded(data)
    if text.count("[") + text.count("{") > max_depth:
        _check_depth(text, max_depth)
    try:
        value = _STRICT.decode(text)
    except json.JSONDecodeError as error:
        _refuse(text, error.pos, error.msg[0].lower() + error.msg[1:])
    except _DoubledKeyError:
        _refuse(text, *_doubled_key(text))
    except _NumberError as error:
        _refuse(text, _position(text, error.literal), error.problem)
    if "\\u" in text:
        _check_surrogates(text)
    return value


class _DoubledKeyError(Exception):
    pass


class _NumberError(Exception):
    def __init__(self, literal: str, problem: str) -> None:
        super().__init__(literal)
        self.literal = literal
        self.problem = problem


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _DoubledKeyError
    return value


def _integer(literal: str) -> int:
    # 20 characters hold every 64-bit integer; longer ones never reach int(), which refuses 4,301 digits by ValueError.
    if len(literal) > 20 or not _INT_MIN <= int(literal) <= _INT_MAX:
        raise _NumberError(literal, "an integer does not fit into 64 bits: send it as a string")
    return int(literal)


def _float(literal: str) -> float:
    value = float(literal)
    if math.isinf(value):
        raise _NumberError(literal, "a number is too large for a double: send it as a string")
    return value


def _constant(literal: str) -> NoReturn:
    raise _NumberError(literal, f"{literal} is not a JSON number")


_STRICT = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant)


def _decoded(data: bytes | str) -> str:
    if isinstance(data, str):
        try:
            data.encode()
        except UnicodeEncodeError as error:
            _refuse(data, error.start, "half of a surrogate pair, which is no character")
        return data
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedRequest(f"not UTF-8: byte {error.start} ({error.reason})") from None


def _check_depth(text: str, max_depth: int) -> None:
    depth = 0
    for token in _TOKEN.finditer(text):
        if token[0] in "[{":
            depth += 1
            if depth > max_depth:
                _refuse(text, token.start(), f"nested deeper than {max_depth} levels")
        elif token[0] in "]}":
            depth -= 1


def _doubled_key(text: str) -> tuple[int, str]:
    """Where the first doubled key is, in a text already known to be well-formed up to there."""
    open_keys: list[set[str]] = [set()]
    for token in _TOKEN.finditer(text):
        if token[0] in "[{":
            open_keys.append(set())
        elif token[0] in "]}":
            open_keys.pop()
        elif token[1].endswith(":"):
            key = json.loads(token[0].removesuffix(":"))
            if key in open_keys[-1]:
                shown = key if len(key) <= 60 else key[:60] + "..."
                return token.start(), f"the key {encode_basestring_ascii(shown)} appears twice in one object"
            open_keys[-1].add(key)
    return 0, "a key appears twice in one object"


def _position(text: str, literal: str) -> int:
    return next((word.start() for word in _WORD.finditer(text) if word[0] == literal), 0)


def _check_surrogates(text: str) -> None:
    for escape in _ESCAPE.finditer(text):
        if escape[1]:
            _refuse(text, escape.start(), f"\\{escape[1]} is half of a surrogate pair, which is no character")


def _refuse(text: str, position: int, problem: str) -> NoReturn:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    raise MalformedRequest(f"not acceptable JSON: {problem} (line {line}, column {column})") from None
