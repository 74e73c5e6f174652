"""What holds for every log that the planner can write, for each of its prefixes, and for garbage."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from engine.drafts import write_down
from engine.fold import State, TooNew, apply, fold
from engine.models import anthropic, openai
from engine.models.contract import ModelRequest
from engine.plan import RUN_AGAIN, next_steps
from engine.projection import messages_of, states_of
from engine.records import VERSION, Record
from tests.engine.driving import MAX_TURNS, NOW, drive, terms_of, told
from tests.fake_provider import Rules

random_sources = st.integers(0, 2**32).map(Random)


def session(rng: Random) -> list[Record]:
    """The log of a session of a few turns."""
    return [record for number in range(rng.choice([1, 1, 2, 3])) for record in drive(f"t_{number}", rng).records]


@given(random_sources)
@settings(max_examples=150, deadline=None)
def test_every_turn_comes_to_exactly_one_end(rng: Random) -> None:
    driven = drive("t_1", rng)
    assert [record["t"] for record in driven.records].count("ended") == 1
    assert driven.records[-1]["t"] == "ended"
    assert driven.records[0]["t"] == "turn"
    assert driven.next() == ()


@given(random_sources)
@settings(max_examples=150, deadline=None)
def test_every_call_gets_exactly_one_result(rng: Random) -> None:
    driven = drive("t_1", rng)
    results = Counter(record["at"] for record in driven.records if record["t"] == "result")
    calls = {call.path for step in driven.state.steps for call in step.calls}
    assert results == dict.fromkeys(calls, 1)


@given(random_sources)
@settings(max_examples=150, deadline=None)
def test_an_effect_begins_once_and_once_more_for_each_time_a_person_says_so(rng: Random) -> None:
    driven = drive("t_1", rng)
    again = Counter(
        r["item"].rsplit(".", 1)[0] for r in driven.records if r["t"] == "decided" and r["text"] == RUN_AGAIN
    )
    for step in driven.state.steps:
        for call in step.calls:
            if call.kind == "effect":
                assert call.intents <= 1 + again[f"t_1.{call.path}"]


@given(random_sources)
@settings(max_examples=150, deadline=None)
def test_what_was_not_allowed_never_begins(rng: Random) -> None:
    driven = drive("t_1", rng)
    approved: set[str] = set()
    for record in driven.records:
        if record["t"] == "judged" and record["verdict"] == "allow":
            approved.add(record["at"])
        for intent in record["calls"] if record["t"] == "started" else ():
            call = driven.state.call(intent["at"])
            assert call
            assert call.verdict == "allow" or (call.verdict == "ask" and call.path in approved)


@given(random_sources)
@settings(max_examples=100, deadline=None)
def test_a_decision_pays_for_at_most_one_intent(rng: Random) -> None:
    driven = drive("t_1", rng)
    used = [i["uses"] for r in driven.records if r["t"] == "started" for i in r["calls"] if i["uses"]]
    paid_twice = [item for item, count in Counter(used).items() if count > 1]
    for item in paid_twice:  # only a call that may be repeated anyway
        call = driven.state.call_of_item(item)
        assert call
        assert call.kind != "effect"


@given(random_sources)
@settings(max_examples=100, deadline=None)
def test_every_prefix_can_be_folded_planned_and_written_on(rng: Random) -> None:
    records = session(rng)
    for length in range(len(records) + 1):
        prefix = records[:length]
        turn = prefix[-1]["turn"] if prefix else "t_0"
        state = fold(prefix, turn)
        assert state == _step_by_step(prefix, turn)
        for claim in ("claim-1", "somebody else"):
            steps = next_steps(state, claim, MAX_TURNS)
            assert bool(steps) == (state.ended is None)
            assert told(steps)


def _step_by_step(records: list[Record], turn: str) -> State:
    state = State(turn)
    for record in records:
        if record["turn"] == turn:
            apply(state, record)
    return state


@given(random_sources)
@settings(max_examples=100, deadline=None)
def test_every_prefix_projects_to_a_request_that_strict_providers_take(rng: Random) -> None:
    records = session(rng)
    rules = Rules()
    for record in records:
        if record["t"] == "model":
            rules.remember(record["blocks"])
    for length in range(1, len(records) + 1):
        messages = messages_of(states_of(records[:length]).values())
        if messages[-1]["role"] == "assistant":
            messages.pop()  # an answer that ended its turn: nothing is asked before the next message
        request = ModelRequest("You help.", messages, [], 100)
        assert rules.anthropic(anthropic.request_body(request, "m")) is None
        assert Rules().openai(openai.request_body(request, "m", own=False)) is None


@given(random_sources, st.data())
@settings(max_examples=150, deadline=None)
def test_records_in_any_order_with_any_gaps_are_folded_planned_and_projected(rng: Random, data: st.DataObject) -> None:
    records = session(rng)
    garbage = data.draw(st.lists(st.sampled_from(records), max_size=30))
    for turn in {record["turn"] for record in garbage}:
        state = fold(garbage, turn)
        for step in next_steps(state, "claim-1", MAX_TURNS):
            if not told([step]).startswith(("run", "model")):
                write_down(step, state, terms_of(turn, "claim-1"), NOW)  # type: ignore[arg-type]
    messages_of(states_of(garbage).values())


@given(random_sources)
@settings(max_examples=50, deadline=None)
def test_a_record_of_a_newer_version_stops_the_reader_unless_it_is_a_note(rng: Random) -> None:
    records = session(rng)
    place = rng.randrange(len(records) + 1)
    newer: dict[str, Any] = {"t": "dreamt", "v": VERSION + 1, "turn": records[-1]["turn"]}
    with pytest.raises(TooNew):
        fold([*records[:place], newer, *records[place:]], records[-1]["turn"])
    noted = [*records[:place], newer | {"note": True}, *records[place:]]
    assert fold(noted, records[-1]["turn"]) == fold(records, records[-1]["turn"])


def test_an_unknown_kind_of_record_changes_nothing() -> None:
    records = drive("t_1", Random(1)).records
    assert fold([*records, {"t": "dreamt", "v": 1, "turn": "t_1"}], "t_1") == fold(records, "t_1")


def test_turns_of_a_session_do_not_see_each_other() -> None:
    rng = Random(5)
    one, two = drive("t_1", rng).records, drive("t_2", rng).records
    assert fold([*one, *two], "t_2") == fold(two, "t_2")
