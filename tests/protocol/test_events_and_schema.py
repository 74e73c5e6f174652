"""The models and the schema file are two writings of one vocabulary: they accept and refuse the same values."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from protocol.events import LOOP_EVENT, SCHEMA_PATH, validate_event

Json = dict[str, Any]

SCHEMA: Json = json.loads(SCHEMA_PATH.read_text())
MODELS: Json = LOOP_EVENT.json_schema()
BY_SCHEMA = Draft202012Validator(SCHEMA, format_checker=Draft202012Validator.FORMAT_CHECKER)

# Facts of protocol v1, written down apart from both: (required, optional) besides `type` and `agentPath`.
VOCABULARY = {
    "budget:check": ("action usedTokens budgetTokens ratio", "nudge"),
    "prompt:compaction": ("from to", ""),
    "assistant:text": ("text", ""),
    "actauth:decision": ("tool decision reason", ""),
    "tool:started": ("id tool args detailText", ""),
    "tool:result": ("id tool statusText", "args detailText"),
    "toollane:result": ("name summary", ""),
    "skill:loaded": ("skill", ""),
    "loop:skipped": ("name deniedTools", ""),
    "loop:max_turns": ("maxTurns", ""),
    "loop:denied": ("deniedTools", ""),
    "loop:done": ("text", ""),
    "session": ("sessionId", "turnId"),
    "approval:pending": ("id tool args scope reason requestedAt", "digest expiresAt sessionId turnId"),
    "question:pending": ("id question agent requestedAt", "options sessionId turnId expiresAt"),
    "done": ("text", "stopReason"),
    "error": ("error", ""),
    "assistant:delta": ("text", ""),
    "turn:resumed": ("attempt reason", ""),
    "stream:reset": ("reason", ""),
}

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
numbers = st.integers(-(2**63), 2**64) | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, json_values, max_size=3)


@st.composite
def moments(draw: st.DrawFn) -> str:
    day = draw(st.dates()).isoformat()
    clock = draw(st.times()).isoformat()
    zone = draw(st.sampled_from(["Z", "z", "+00:00", "-23:59", "+05:30"]))
    return f"{day}{draw(st.sampled_from('Tt'))}{clock}{zone}"


NOT_MOMENTS = [
    "",
    "2026-02-30T01:00:00Z",
    "2026-13-01T01:00:00Z",
    "0000-01-01T01:00:00Z",
    "2026-08-28T01:34:32",
    "2026-08-28 01:34:32Z",
    "2026-08-28T24:00:00Z",
    "2026-08-28T01:34:60Z",
    "2026-08-28T01:34:32.Z",
    "2026-08-28T01:34:32+5:30",
    "2026-08-28",
    "\uff12026-08-28T01:34:32Z",
]


def values_of(shape: Json, root: Json) -> st.SearchStrategy[Any]:
    """Values that fit one node of a JSON Schema, for the words that the two schemas use."""
    if "$ref" in shape:
        return values_of(root["$defs"][shape["$ref"].rpartition("/")[2]], root)
    for choice in ("oneOf", "anyOf"):
        if choice in shape:
            return st.one_of([values_of(one, root) for one in shape[choice]])
    if "const" in shape:
        return st.just(shape["const"])
    if "enum" in shape:
        return st.sampled_from(shape["enum"])
    if shape["type"] == "object":
        return records_of(shape, root) if "properties" in shape else objects
    if shape["type"] == "array":
        return st.lists(values_of(shape["items"], root), max_size=3)
    if shape["type"] == "integer":
        whole = st.integers(shape.get("minimum"), 10**9)
        return whole | whole.map(float)
    return {"string": moments() if "format" in shape else texts, "number": numbers}[shape["type"]]


def records_of(shape: Json, root: Json) -> st.SearchStrategy[Any]:
    fields = {name: values_of(one, root) for name, one in shape["properties"].items()}
    required = {name: fields.pop(name) for name in shape["required"]}
    known = st.fixed_dictionaries(required, optional=fields)
    if shape.get("additionalProperties") is False:
        return known
    return st.builds(lambda extra, record: {**extra, **record}, objects, known)


MODEL_EVENTS = values_of(MODELS, MODELS)
SCHEMA_EVENTS = values_of(SCHEMA, SCHEMA)


@st.composite
def damaged(draw: st.DrawFn, intact: st.SearchStrategy[Json]) -> Any:
    event = draw(intact)
    for _ in range(draw(st.integers(1, 2))):
        # Half of the time the damage is one level down: in the scope, the nudge or the args.
        inner = [value for value in event.values() if isinstance(value, dict)]
        target = draw(st.sampled_from([event, *inner]))
        how = draw(st.sampled_from(["drop", "add", "retype", "retype", "null", "moment"]))
        names = sorted(target)
        if how == "add" or not names:
            target[draw(texts | st.sampled_from(["turnId", "stopReason", "agentPath", "text"]))] = draw(json_values)
        elif how == "drop":
            del target[draw(st.sampled_from(names))]
        else:
            other = {"retype": json_values, "null": st.none(), "moment": st.sampled_from(NOT_MOMENTS)}[how]
            target[draw(st.sampled_from(names))] = draw(other)
    return event


def by_models(event: Any) -> bool:
    try:
        LOOP_EVENT.validate_python(event)
    except ValidationError:
        return False
    return True


@settings(max_examples=300, deadline=None)
@given(MODEL_EVENTS)
def test_what_the_models_describe_the_schema_accepts(event: Json) -> None:
    assert by_models(event)
    assert BY_SCHEMA.is_valid(event), event


@settings(max_examples=300, deadline=None)
@given(SCHEMA_EVENTS)
def test_what_the_schema_describes_the_models_accept(event: Json) -> None:
    assert BY_SCHEMA.is_valid(event)
    assert by_models(event), event


@settings(max_examples=500, deadline=None)
@given(damaged(MODEL_EVENTS) | damaged(SCHEMA_EVENTS) | json_values)
def test_models_and_schema_agree_on_damaged_events(event: Any) -> None:
    assert by_models(event) == BY_SCHEMA.is_valid(event), event


@settings(max_examples=200, deadline=None)
@given(MODEL_EVENTS)
def test_an_event_comes_out_of_its_model_as_it_went_in(event: Json) -> None:
    assert validate_event(event).to_dict() == event


@settings(max_examples=200, deadline=None)
@given(MODEL_EVENTS)
def test_python_values_and_json_text_are_judged_alike(event: Json) -> None:
    assert LOOP_EVENT.validate_json(json.dumps(event)) == validate_event(event)


def test_the_schema_file_is_valid_itself_and_names_its_home() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert SCHEMA["$id"] == "https://loopengine.dev/protocol/loop-event.schema.json"


@pytest.mark.parametrize("root", [SCHEMA, MODELS], ids=["schema", "models"])
def test_the_vocabulary_is_protocol_v1_and_the_named_additions_and_nothing_else(root: Json) -> None:
    found = {}
    for reference in root["oneOf"]:
        shape = root["$defs"][reference["$ref"].rpartition("/")[2]]
        fields = set(shape["properties"]) - {"type", "agentPath"}
        required = set(shape["required"]) - {"type"}
        assert shape["additionalProperties"] is False
        assert "agentPath" in shape["properties"]
        assert "type" in shape["required"]
        found[shape["properties"]["type"]["const"]] = (required, fields - required)
    assert found == {
        kind: (set(required.split()), set(optional.split())) for kind, (required, optional) in VOCABULARY.items()
    }


@pytest.mark.parametrize("text", NOT_MOMENTS)
def test_a_moment_is_rfc_3339_and_of_the_calendar(text: str) -> None:
    event = {"type": "question:pending", "id": "i", "question": "q", "agent": "a", "requestedAt": text}
    assert not by_models(event)
    assert not BY_SCHEMA.is_valid(event)


@pytest.mark.parametrize(
    "event",
    [
        {"type": "done", "text": "x", "stopReason": None},
        {"type": "done", "text": "x", "stop_reason": "error"},
        {"type": "done", "text": "x", "stopReason": "tired"},
        {"type": "session", "sessionId": 5},
        {"type": "loop:max_turns", "maxTurns": True},
        {"type": "loop:max_turns", "maxTurns": "25"},
        {"type": "turn:resumed", "attempt": 0, "reason": "r"},
        {"type": "turn:resumed", "attempt": 1.5, "reason": "r"},
        {"type": "tool:started", "id": "1.0", "tool": "t", "args": [], "detailText": ""},
        {"type": "Done", "text": "x"},
        {"text": "x"},
        {"type": ["done"], "text": "x"},
    ],
)
def test_nothing_is_coerced_renamed_or_null(event: Json) -> None:
    assert not by_models(event)
    assert not BY_SCHEMA.is_valid(event)


def test_no_event_holds_a_number_that_json_cannot_write() -> None:
    event = {"type": "budget:check", "action": "ok", "usedTokens": float("nan"), "budgetTokens": 1, "ratio": 1}
    assert not by_models(event)
