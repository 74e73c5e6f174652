"""JSON text: written as one ASCII line whatever it holds, read strictly whatever arrives."""

from __future__ import annotations

import json
import math
import random
import sys
from typing import Any

import orjson
import pytest
from hypothesis import given, strategies as st

from protocol.errors import MalformedRequest
from protocol.json_text import canonical, digest_of, dumps, loads_strict

any_text = st.text(st.characters(), max_size=20)  # lone surrogates too
any_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=10,
)
clean_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
clean_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | clean_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(clean_text, inner, max_size=4),
    max_leaves=10,
)


@given(any_values)
def test_whatever_python_holds_becomes_one_line_of_printable_ascii_that_parses_strictly(value: Any) -> None:
    line = dumps(value)
    assert all(0x20 <= byte < 0x7F for byte in line)
    assert len(line.decode().splitlines()) == 1
    loads_strict(line)


@given(clean_values)
def test_clean_values_survive_the_round_trip(value: Any) -> None:
    assert loads_strict(dumps(value)) == value
    assert json.loads(dumps(value)) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("caf\u00e9", b'"caf\\u00e9"'),
        ("\U0001f600", b'"\\ud83d\\ude00"'),
        ("a\u2028b\u0085\x7f", b'"a\\u2028b\\u0085\\u007f"'),
        ("x\ud800y", b'"x\\ufffdy"'),
        ("\udc00", b'"\\ufffd"'),
        ({"\ud83d": 1}, b'{"\\ufffd":1}'),
        ([math.nan, math.inf, -math.inf], b"[null,null,null]"),
        ({"a": [1, {"b": "\ud800", "n": math.nan}]}, b'{"a":[1,{"b":"\\ufffd","n":null}]}'),
        ((1, 2), b"[1,2]"),
        (2**70, b"1.1805916207174113e+21"),
        (True, b"true"),
    ],
)
def test_what_json_cannot_hold_is_made_safe(value: Any, text: bytes) -> None:
    assert dumps(value) == text


def test_an_integer_beyond_every_double_is_no_number() -> None:
    assert dumps([10**5000, -(10**5000)]) == b"[null,null]"


def test_nesting_beyond_reason_is_cut_and_does_not_fail() -> None:
    value: list[Any] = []
    for _ in range(5000):
        value = [value]
    assert dumps(value).startswith(b"[[[[")
    assert b"null" in dumps(value)


def test_an_object_that_is_not_json_is_the_callers_mistake() -> None:
    with pytest.raises(TypeError):
        dumps({"tool": object()})


def test_events_as_stored_are_embedded_without_being_parsed() -> None:
    stored = orjson.Fragment(b'[{"type":"done","text":"x"}]')
    assert dumps({"events": stored, "text": "\u00e9"}) == (b'{"events":[{"type":"done","text":"x"}],"text":"\\u00e9"}')
    assert dumps({"events": stored, "text": "\ud800"}).startswith(b'{"events":[{"type":"done"')


@given(st.dictionaries(clean_text, any_values, max_size=5), st.randoms(use_true_random=False))
def test_a_digest_does_not_depend_on_the_order_of_keys(args: dict[str, Any], chance: random.Random) -> None:
    shuffled = list(args.items())
    chance.shuffle(shuffled)
    assert digest_of("t", dict(shuffled)) == digest_of("t", args)


@given(st.dictionaries(clean_text, any_values, max_size=5))
def test_a_digest_is_the_same_after_the_arguments_were_stored_and_read_again(args: dict[str, Any]) -> None:
    assert digest_of("t", orjson.loads(dumps(args))) == digest_of("t", args)


def test_a_digest_is_32_hex_digits_and_tells_tools_and_arguments_apart() -> None:
    digest = digest_of("issue_refund", {"orderId": "A-1001", "amount": 42})
    assert len(digest) == 32
    assert int(digest, 16) >= 0
    others = [
        digest_of("issue_refund", {"orderId": "A-1001", "amount": 42.5}),
        digest_of("issue_refund", {"orderId": "A-1001", "amount": "42"}),
        digest_of("issue_refund ", {"orderId": "A-1001", "amount": 42}),
    ]
    assert len({digest, *others}) == 4
    assert canonical({"b": 1, "a": {"d": 2, "c": "\u00e9"}}) == b'{"a":{"c":"\\u00e9","d":2},"b":1}'


REFUSED = [
    (b"", "line 1, column 1"),
    (b"   ", "line 1, column 4"),
    (b'{"a":1,}', "line 1, column"),
    (b'{"a":\n  nope}', "line 2, column 3"),
    (b"{'a':1}", "line 1, column 2"),
    (b'{"a":1} x', "line 1, column 9"),
    (b'"\n"', "line 1, column 2"),
    (b'{"a":NaN}', "NaN is not a JSON number (line 1, column 6)"),
    (b"[Infinity]", "Infinity is not a JSON number (line 1, column 2)"),
    (b"[-Infinity]", "-Infinity is not a JSON number (line 1, column 2)"),
    (b'{"note":"1e400",\n"n":1e400}', "too large for a double: send it as a string (line 2, column 5)"),
    (b"[" + b"1" * 5000 + b"]", "does not fit into 64 bits: send it as a string (line 1, column 2)"),
    (b"18446744073709551616", "does not fit into 64 bits"),
    (b"-9223372036854775809", "does not fit into 64 bits"),
    (b'{"decision":"deny","decision":"allow"}', 'the key "decision" appears twice in one object (line 1, column 20)'),
    (b'{"a":1,"b":[{"x":{}},{"k":1,\n"\\u006b" :2}]}', 'the key "k" appears twice in one object (line 2, column 1)'),
    (b'["\\ud800"]', "\\ud800 is half of a surrogate pair, which is no character (line 1, column 3)"),
    (b'["\\uDC00\\ud800"]', "\\uDC00 is half of a surrogate pair"),
    (b'{"\\ud83dx":1}', "\\ud83d is half of a surrogate pair"),
    (b"\xff", "not UTF-8: byte 0"),
    (b'"\xed\xa0\x80"', "not UTF-8: byte 1"),
    (b"\xef\xbb\xbf1", "line 1, column 1"),
    ('"\ud800"', "half of a surrogate pair, which is no character (line 1, column 2)"),
    (b"[" * 65 + b"]" * 65, "nested deeper than 64 levels (line 1, column 65)"),
    (b'{"a":' * 100_000, "nested deeper than 64 levels"),
    (b"[" * 1_000_000, "nested deeper than 64 levels"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED, ids=[str(text[:24]) for text, _ in REFUSED])
def test_bad_json_is_refused_with_what_and_where(text: bytes | str, said: str) -> None:
    with pytest.raises(MalformedRequest) as refused:
        loads_strict(text)
    assert said in str(refused.value)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (b'"\\\\ud800"', "\\ud800"),
        (b"18446744073709551615", 2**64 - 1),
        (b"-9223372036854775808", -(2**63)),
        (b'[{"a":1},{"a":1}]', [{"a": 1}, {"a": 1}]),
        (b'{"a":{"a":{}}}', {"a": {"a": {}}}),
        (b'"' + b"[" * 1000 + b'"', "[" * 1000),
        (b"[" + b'"\\"[",' * 200 + b"[]]", ['"['] * 200 + [[]]),
        ("\u00e9".join(['"', '"']), "\u00e9"),
        (b"1e308", 1e308),
    ],
    ids=range(10),
)
def test_unusual_but_proper_json_is_read(text: bytes | str, value: Any) -> None:
    assert loads_strict(text) == value


def test_the_depth_limit_counts_levels_and_not_brackets() -> None:
    assert loads_strict(b"[" + b"[]," * 1000 + b"[]]") == [[]] * 1001
    assert loads_strict(b"[" * 64 + b"]" * 64) is not None
    assert loads_strict(b"[[]]", max_depth=2) == [[]]
    with pytest.raises(MalformedRequest, match="nested deeper than 1 levels"):
        loads_strict(b"[[]]", max_depth=1)


@pytest.mark.parametrize(
    "text",
    ['{"a":' * 70 + '"' + '\\"' * 200_000, '"' + "[" * 200_000 + '\\"' * 200_000],
    ids=["key", "value"],
)
def test_an_endless_string_costs_no_more_than_reading_it_once(text: str) -> None:
    # Backtracking would make this 10^10 steps: the test would not come back.
    with pytest.raises(MalformedRequest):
        loads_strict(text)


@given(st.binary(max_size=40) | st.text(alphabet='[]{}:,"\\u0dD89e+-1. \n', max_size=40))
def test_any_input_gives_a_value_or_malformed_request(data: bytes | str) -> None:
    limit = sys.get_int_max_str_digits()
    try:
        value = loads_strict(data)
    except MalformedRequest:
        return
    assert loads_strict(dumps(value)) == value
    assert sys.get_int_max_str_digits() == limit
