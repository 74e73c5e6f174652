"""The one documented form of everything that a tool may return."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import math
import pathlib
import uuid
from collections import OrderedDict, namedtuple
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

from engine.tools.rendering import MAX_CHARS, NO_OUTPUT, Unrenderable, clean_text, cut, render


class Odd(enum.Enum):
    X = math.nan


class Model(BaseModel):
    name: str
    price: decimal.Decimal


@dataclasses.dataclass
class Record:
    when: datetime.date
    tags: set[str]


Point = namedtuple("Point", "x y")

RENDERED: list[tuple[Any, str]] = [
    (None, NO_OUTPUT),
    ("", NO_OUTPUT),
    ("   \n\t ", NO_OUTPUT),
    ('text as it is: "quoted" \u202e', 'text as it is: "quoted" \u202e'),
    ("nul \x00 stays", "nul \x00 stays"),
    ("lone \ud83d high", "lone \ufffd high"),
    ("lone \udc88 low", "lone \ufffd low"),
    ("a pair \ud83d\ude00", "a pair \U0001f600"),
    (True, "true"),
    (5, "5"),
    (-0.0, "-0.0"),
    (10**400, str(10**400)),
    (math.nan, "null"),
    (math.inf, "null"),
    (decimal.Decimal("1.10"), '"1.10"'),
    (decimal.Decimal("NaN"), "null"),
    (b"\x00\xff", '{"type": "bytes", "base64": "AP8="}'),
    (bytearray(b"x"), '{"type": "bytes", "base64": "eA=="}'),
    ({3, 1, 2}, "[1, 2, 3]"),
    ({"b", "a"}, '["a", "b"]'),
    (frozenset(), "[]"),
    ((math.nan,), "[null]"),
    ([], "[]"),
    ({}, "{}"),
    (datetime.datetime(2024, 2, 29), '"2024-02-29T00:00:00"'),
    (datetime.date(2024, 2, 29), '"2024-02-29"'),
    (datetime.timedelta(seconds=1), '"PT1S"'),
    (uuid.UUID(int=0), '"00000000-0000-0000-0000-000000000000"'),
    (Odd.X, "null"),
    (pathlib.Path("/x"), '"/x"'),
    (Model(name="n", price=decimal.Decimal("1.10")), '{"name": "n", "price": "1.10"}'),
    (Record(datetime.date(2024, 1, 1), {"b", "a"}), '{"when": "2024-01-01", "tags": ["a", "b"]}'),
    (Point(1, 2), "[1, 2]"),
    (OrderedDict(b=1, a=2), '{"b": 1, "a": 2}'),
    ({1: "a", None: "b", False: "c", 1.5: "d"}, '{"1": "a", "null": "b", "false": "c", "1.5": "d"}'),
    ({"\ud83d": "\udc88"}, '{"\ufffd": "\ufffd"}'),
    ({datetime.date(2024, 1, 1): 1}, '{"2024-01-01": 1}'),
]

cycle: list[Any] = []
cycle.append(cycle)
deep: list[Any] = []
for _ in range(5_000):
    deep = [deep]

REFUSED: list[tuple[Any, str]] = [
    (ValueError("no"), "type ValueError"),
    (object(), "type object"),
    (print, "type builtin_function_or_method"),
    (range(3), "type range"),
    (complex(1, 2), "type complex"),
    (Record, "type type"),
    (cycle, "contains itself"),
    (deep, "nested deeper than 100"),
    ({1: "a", "1": "b"}, "two keys that both become '1'"),
    ({(1, 2): 3}, "a key of type tuple"),
    (10**5000, "cannot be written as JSON"),
]


def strictly(text: str) -> Any:
    def refuse(word: str) -> None:
        raise AssertionError(word)

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len({key for key, _ in pairs}) == len(pairs)
        return dict(pairs)

    return json.loads(text, parse_constant=refuse, object_pairs_hook=once)


@pytest.mark.parametrize(("value", "text"), RENDERED, ids=map(str, range(len(RENDERED))))
def test_a_value_has_one_form_alone_and_nested(value: Any, text: str) -> None:
    assert render(value) == text
    if isinstance(value, str | None):
        return
    for nested in ({"in": value}, [value], (value,)):
        found = strictly(render(nested))
        assert (found["in"] if isinstance(nested, dict) else found[0]) == strictly(text)


@pytest.mark.parametrize(("value", "problem"), REFUSED, ids=map(str, range(len(REFUSED))))
def test_what_has_no_form_is_refused_alone_and_nested(value: Any, problem: str) -> None:
    for nested in (value, {"in": value}, [value], (value,)):
        with pytest.raises(Unrenderable, match=problem):
            render(nested)


def test_the_same_value_twice_is_no_cycle() -> None:
    shared = [1]
    assert render({"a": shared, "b": shared}) == '{"a": [1], "b": [1]}'


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_whatever_json_can_be_made_of_becomes_strict_json(value: Any) -> None:
    text = render([value])
    strictly(text)
    text.encode()


@given(st.text(st.characters(exclude_categories=())))
def test_cleaned_text_is_valid_and_valid_text_is_left_alone(text: str) -> None:
    cleaned = clean_text(text)
    cleaned.encode()
    assert clean_text(cleaned) == cleaned


@pytest.mark.parametrize("length", range(MAX_CHARS - 3, MAX_CHARS + 4))
@pytest.mark.parametrize("unit", ["a", "\U0001f600", "e\u0301", "\u2764\ufe0f", "\U0001f44d\U0001f3fd"])
def test_a_long_output_keeps_head_and_tail_and_whole_characters(unit: str, length: int) -> None:
    text = (unit * length)[:length]
    text = text[: len(text) - len(text) % len(unit)] + "x" * (len(text) % len(unit))
    found = cut(text)
    assert len(found) <= MAX_CHARS
    if len(text) <= MAX_CHARS:
        assert found == text
        return
    head, note, tail = found.split("\n")
    assert note.startswith(f"[... {len(text):,} characters in all")
    assert head == unit * (len(head) // len(unit))
    assert tail.rstrip("x") == unit * (len(tail.rstrip("x")) // len(unit))
    assert len(found) > MAX_CHARS - 100


def test_a_tiny_limit_still_says_what_was_left_out() -> None:
    assert "characters in all" in cut("a" * 500, 100)
