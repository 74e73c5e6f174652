"""PROTOCOL.md is held to the schema and to its own rules: examples, answers and catalog are checked, not trusted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter

from protocol import ndjson
from protocol.answers import TurnDone, TurnPending, TurnRunning
from protocol.events import SCHEMA_PATH, validate_event
from protocol.json_text import digest_of, dumps, loads_strict

Event = dict[str, Any]

PAGE = (Path(__file__).parents[2] / "PROTOCOL.md").read_text()
SCHEMA = orjson.loads(SCHEMA_PATH.read_bytes())
BY_SCHEMA = Draft202012Validator(SCHEMA, format_checker=Draft202012Validator.FORMAT_CHECKER)
SHAPES: dict[str, Event] = {
    shape["properties"]["type"]["const"]: shape
    for shape in SCHEMA["$defs"].values()
    if "const" in shape.get("properties", {}).get("type", {})
}
STATUS_TEXTS = {"Approved.", "Denied.", "Skipped.", "Error.", "Cancelled.", "Unknown."}
PENDING = ("approval:pending", "question:pending")

EXAMPLES = re.findall(r"^### ([^\n]+)\n(?:(?!^#).)*?```text\n(.*?)```\n\n```ndjson\n(.*?)```", PAGE, re.S | re.M)


def events_of(block: str) -> list[Event]:
    return [loads_strict(line) for line in ndjson.lines([block.encode()])]


each_example = pytest.mark.parametrize(
    ("tree", "events"),
    [(tree, events_of(block)) for _, tree, block in EXAMPLES],
    ids=[title.replace(" ", "-") for title, _, _ in EXAMPLES],
)


def test_every_kind_of_ending_and_every_block_of_events_is_among_the_examples() -> None:
    assert PAGE.count("```ndjson") == len(EXAMPLES) == 8
    ends = {events_of(block)[-1].get("stopReason") for _, _, block in EXAMPLES}
    assert ends == {None, "denied", "cancelled"}


@each_example
def test_each_event_of_an_example_fits_schema_and_models(tree: str, events: list[Event]) -> None:
    for event in events:
        BY_SCHEMA.validate(event)
        assert validate_event(event).to_dict() == event


@each_example
def test_the_tree_of_an_example_shows_its_events_in_order(tree: str, events: list[Event]) -> None:
    shown = re.findall(r"[├└]─ ([a-z_]+(?::[a-z_]+)?)(.*)", tree)
    assert [kind for kind, _ in shown] == [event["type"] for event in events]
    for (_, said), event in zip(shown, events, strict=True):
        told = {str(value) for value in event.values() if isinstance(value, str)}
        assert all(word in told for word in said.split()), (said, event)


@each_example
def test_an_example_keeps_the_promised_order(tree: str, events: list[Event]) -> None:
    kinds = [event["type"] for event in events]
    assert kinds[0] == "session"
    assert kinds.count("session") == kinds.count("done") == 1
    assert kinds[-1] == "done"
    results = [event for event in events if event["type"] == "tool:result"]
    assert len({event["id"] for event in results}) == len(results)
    assert {event["statusText"] for event in results} <= STATUS_TEXTS
    for at, event in enumerate(events):
        if event["type"] == "tool:started":
            assert event["id"] in [later["id"] for later in events[at:] if later["type"] == "tool:result"]
        if event["type"] == "toollane:result":
            assert (kinds[at + 1], events[at + 1]["tool"]) == ("tool:result", event["name"])
        if event["type"] == "loop:skipped":
            assert (kinds[at + 1], events[at + 1]["statusText"]) == ("tool:result", "Skipped.")


@each_example
def test_an_open_item_of_an_example_names_its_call_and_its_digest(tree: str, events: list[Event]) -> None:
    turn = events[0]["turnId"]
    called = {event["id"]: event["tool"] for event in events if event["type"] == "tool:result"}
    for event in events:
        if event["type"] in PENDING:
            path, _, asked = event["id"].removeprefix(f"{turn}.").rpartition(".")
            assert asked.isdigit()
            assert path in called
            assert event["turnId"] == turn
        if event["type"] == "approval:pending":
            assert called[path] == event["tool"]
            assert event["digest"] == digest_of(event["tool"], event["args"])


def test_a_batch_of_an_example_is_decided_before_any_of_its_calls_runs() -> None:
    for title, _, block in EXAMPLES:
        running = False
        for event in events_of(block):
            if event["type"] == "budget:check":
                running = False
            running = running or event["type"] == "tool:started"
            assert not (running and event["type"] in ("approval:pending", "actauth:decision")), title


def test_the_catalog_lists_every_event_with_exactly_its_fields() -> None:
    listed = {}
    for kind, fields in re.findall(r"^\| `([a-z_:]+)` \| [^|]* \| ([^|]*) \|$", PAGE, re.M):
        top_level = re.sub(r"\([^)]*\)|\{[^}]*\}", "", fields)
        listed[kind] = set(re.findall(r"`([A-Za-z]+\??)`", top_level))
    assert listed == {
        kind: {
            name if name in shape["required"] else f"{name}?"
            for name in shape["properties"]
            if name not in ("type", "agentPath")
        }
        for kind, shape in SHAPES.items()
    }


def test_the_status_texts_are_explained() -> None:
    assert set(re.findall(r"^\| `([A-Z][a-z]+\.)` \|", PAGE, re.M)) == STATUS_TEXTS


def test_the_answers_shown_fit_the_answers_documented() -> None:
    shown = [loads_strict(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.S)]
    documented: TypeAdapter[TurnDone | TurnPending | TurnRunning] = TypeAdapter(TurnDone | TurnPending | TurnRunning)
    assert [type(documented.validate_python(one)).__name__ for one in shown] == [
        "TurnDone",
        "ApprovalNeeded",
        "TurnRunning",
    ]


def test_events_of_the_page_are_written_as_they_travel() -> None:
    for _, _, block in EXAMPLES:
        for line in ndjson.lines([block.encode()]):
            assert dumps(loads_strict(line)) == line
