"""The planner on paper: what may happen next, for every order of calls and every thing that can have happened."""

from __future__ import annotations

from itertools import groupby, product

import pytest

from engine.plan import AskPerson, Judge, RunCall, next_steps
from engine.records import attempt_failed, context_noted, turn_ended
from tests.engine.driving import KINDS, RUNNABLE, Driven, answered, told


def begun() -> Driven:
    driven = Driven("t_1")
    assert told(driven.next()) == "begin"
    driven.put_down(driven.next()[0])
    return driven


def with_calls(*kinds: str) -> Driven:
    """A turn whose model just answered with these calls."""
    driven = begun()
    driven.write(answered("1", kinds))
    return driven


def everything_goes_well(driven: Driven) -> list[str]:
    """All frontiers up to the next model call, when people say yes and calls succeed."""
    told_steps = []
    while (frontier := told(driven.next())) != "model 2":
        told_steps.append(frontier)
        steps = driven.next()
        match steps[0]:
            case AskPerson(call, kind):
                driven.put_down(steps[0])
                driven.decide(call, "approve" if kind == "approval" else "answer", "blue")
            case RunCall():
                driven.begin_calls(steps)
                for step in steps:
                    driven.end_call(step)
            case _:
                driven.put_down(steps[0])
    return told_steps


def expected(kinds: tuple[str, ...]) -> list[str]:
    """The same in other words: invalid calls first; then, if a rule denies, nothing at all; then people in call
    order; then the calls in call order, neighbouring reads together."""
    steps = [f"answer {kind} error" for kind in kinds if kind == "invalid"]
    kinds = tuple(kind for kind in kinds if kind != "invalid")
    if "forbidden" in kinds:
        return [*steps, "cancel by rule: " + ", ".join(kind for kind in kinds if kind == "forbidden")]
    for kind in kinds:
        if KINDS[kind][0] == "ask":
            steps += [f"ask approval {kind}", f"judge {kind}"]
        if kind == "question":
            steps.append("ask question question")
    for lane, together in groupby(kinds, lambda kind: kind in ("read", "gated read")):
        if lane:
            steps.append("run " + ", ".join(together))
        else:
            steps += ["answer question ok" if kind == "question" else f"run {kind}" for kind in together]
    return steps


@pytest.mark.parametrize("length", [1, 2, 3])
def test_every_order_of_every_kind_of_call_takes_exactly_its_steps(length: int) -> None:
    for kinds in product(KINDS, repeat=length):
        assert everything_goes_well(with_calls(*kinds)) == expected(kinds), kinds


def test_a_batch_of_eight_different_calls() -> None:
    assert everything_goes_well(
        with_calls("read", "pay", "question", "gated read", "read", "invalid", "act", "idem")
    ) == [
        "answer invalid error",
        "ask approval pay",
        "judge pay",
        "ask question question",
        "ask approval gated read",
        "judge gated read",
        "run read",
        "run pay",
        "answer question ok",
        "run gated read, read",
        "run act",
        "run idem",
    ]


@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_person_s_denial_cancels_the_batch_wherever_the_call_stands(position: int) -> None:
    kinds = ["read", "act"]
    kinds.insert(position, "pay")
    driven = with_calls(*kinds)
    driven.put_down(driven.next()[0])
    call = driven.state.step.calls[position]  # type: ignore[union-attr]
    driven.decide(call, "deny")
    assert told(driven.next()) == "cancel by person: pay"
    driven.put_down(driven.next()[0])
    assert told(driven.next()) == "finish denied"
    statuses = {c.tool: c.status for c in driven.state.step.calls}  # type: ignore[union-attr]
    assert statuses == {"pay": "denied", "read": "skipped", "act": "skipped"}


def test_an_item_that_nobody_decided_expires_and_counts_as_denied() -> None:
    driven = with_calls("pay")
    driven.put_down(driven.next()[0])
    assert told(driven.next()) == "expire pay"
    driven.put_down(driven.next()[0])
    assert told(driven.next()) == "cancel by person: pay"


@pytest.mark.parametrize(
    ("kind", "next_"),
    [
        ("read", "run read"),
        ("idem", "run idem"),
        ("gated read", "run gated read"),
        ("act", "ask outcome act"),
        ("pay", "ask outcome pay"),
        ("fragile", "answer fragile unknown"),
    ],
)
def test_what_follows_a_call_whose_worker_died_in_it(kind: str, next_: str) -> None:
    driven = with_calls(kind)
    while not isinstance(driven.next()[0], RunCall):
        step = driven.next()[0]
        driven.put_down(step)
        if isinstance(step, AskPerson):
            driven.decide(step.call, "approve")
    driven.begin_calls(driven.next())
    assert told(driven.next()) == f"run {kind}"  # for its owner it goes on
    driven.claims += 1
    assert told(driven.next()) == next_


@pytest.mark.parametrize(
    ("answer", "next_"),
    [
        ("run again", "run act"),
        ("it happened", "answer act unknown"),
        ("it failed", "answer act error"),
        ("something else", "answer act unknown"),
    ],
)
def test_what_follows_the_answer_to_an_unknown_outcome(answer: str, next_: str) -> None:
    driven = with_calls("act")
    driven.begin_calls(driven.next())
    driven.claims += 1
    step = driven.next()[0]
    driven.put_down(step)
    driven.decide(step.call, "answer", answer)  # type: ignore[union-attr]
    assert told(driven.next()) == next_


def test_a_call_without_its_decision_is_never_run() -> None:
    for kinds in product(("pay", "read"), repeat=3):
        driven = with_calls(*kinds)
        while "pay" in kinds and not isinstance(driven.next()[0], RunCall):
            step = driven.next()[0]
            driven.put_down(step)
            if isinstance(step, AskPerson):
                driven.decide(step.call, "approve")
            if isinstance(step, Judge):
                assert step.call.decision
        runs = [step.call for step in driven.next() if isinstance(step, RunCall)]
        assert runs
        assert all(call.judged == "allow" for call in driven.state.step.calls if call.gated)  # type: ignore[union-attr]


def test_a_result_that_comes_twice_counts_once() -> None:
    driven = with_calls("act")
    steps = driven.next()
    driven.begin_calls(steps)
    driven.end_call(steps[0])
    driven.end_call(steps[0], "error")
    assert driven.state.step.calls[0].status == "ok"  # type: ignore[union-attr]


def test_a_decision_on_another_item_decides_nothing() -> None:
    driven = with_calls("pay")
    driven.put_down(driven.next()[0])
    call = driven.state.step.calls[0]  # type: ignore[union-attr]
    driven.write({**_decision("t_1.1.0.7")}, {**_decision("nonsense")}, {**_decision("t_1.²³.0.1")})
    assert call.decision is None


def _decision(item: str) -> dict[str, object]:
    return {
        "t": "decided", "v": 1, "item": item, "what": "approve", "by": "eve", "decided_at": "", "digest": "",
        "text": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("class_", "most"), [("retry", 6), ("cut", 3), ("truncated", 2), ("empty", 2), ("too_long", 1), ("fatal", 1)]
)
def test_attempts_are_bounded_and_waits_belong_to_the_claim_that_must_wait(class_: str, most: int) -> None:
    driven = begun()
    for number in range(1, most + 1):
        assert told(driven.next()) == ("model 1" if number == 1 else f"model 1 attempt {number}")
        wait_ms = 500 if class_ == "retry" else None
        driven.write(attempt_failed("1", number, class_, "no", driven.claim, wait_ms))  # type: ignore[arg-type]
        if class_ == "retry" and number < most:
            assert told(driven.next()) == "wait 500"
            driven.put_down(driven.next()[0])
    assert told(driven.next()) == "finish error"


def test_the_limit_of_model_calls_does_not_cut_off_a_batch() -> None:
    driven = begun()
    for at in ("1", "2", "3", "4"):
        driven.write(answered(at, ["read"]))
        steps = driven.next()
        assert told(steps) == "run read"
        driven.begin_calls(steps)
        driven.end_call(steps[0])
    assert told(driven.next()) == "finish max_turns"


def test_nothing_follows_the_end() -> None:
    driven = with_calls("act", "pay")
    driven.write(turn_ended("cancelled", ""))
    assert next_steps(driven.state, driven.claim, 4) == ()


def test_a_note_asks_for_nothing() -> None:
    driven = begun()
    driven.write(context_noted("nudge", "come to an end", "1"))
    assert told(driven.next()) == "model 1"


def test_only_kinds_that_may_run_are_run() -> None:
    for kind in KINDS:
        ran = any(step.startswith("run") for step in everything_goes_well(with_calls(kind)))
        assert ran == (kind in RUNNABLE)
