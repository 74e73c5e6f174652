"""What a turn may do now: `next_steps(state, claim)`. Pure and total; performs nothing and knows no clock.

A step is either *paper* (it only writes records and events: asking a person, closing a batch, ending) or *outside*
(a model call, a tool call). A frontier holds one step, or the neighbouring read-only calls of one lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from engine.fold import Call, State, Step
from engine.records import ItemKind, Outcome, Status

# How often one place in the log is tried before the turn ends with an error. Waits are the provider's affair
# (429, 5xx), the others the answer's: cut streams, nothing in it, too little room.
MOST_ATTEMPTS = {"retry": 6, "cut": 3, "truncated": 2, "empty": 2, "too_long": 1, "fatal": 1}

RUN_AGAIN, IT_HAPPENED, IT_FAILED = "run again", "it happened", "it failed"
OUTCOME_ANSWERS = (RUN_AGAIN, IT_HAPPENED, IT_FAILED)


@dataclass(frozen=True, slots=True)
class Begin:
    """The claimed message becomes a turn of the log."""


@dataclass(frozen=True, slots=True)
class CallModel:
    at: str
    attempt: int  # 1 for the first


@dataclass(frozen=True, slots=True)
class WaitForProvider:
    delay_ms: int
    reason: str


@dataclass(frozen=True, slots=True)
class AskPerson:
    call: Call
    kind: ItemKind


@dataclass(frozen=True, slots=True)
class LetExpire:
    """The open item was closed by the claim because its time was over."""

    call: Call


@dataclass(frozen=True, slots=True)
class Judge:
    """A person allowed the call: say so, and announce the allowed calls behind it."""

    call: Call


@dataclass(frozen=True, slots=True)
class CancelBatch:
    denied: tuple[Call, ...]
    by: Literal["rule", "person"]


@dataclass(frozen=True, slots=True)
class Answer:
    """The call gets a result without being run."""

    call: Call
    status: Status
    content: str


@dataclass(frozen=True, slots=True)
class RunCall:
    call: Call


@dataclass(frozen=True, slots=True)
class Finish:
    outcome: Outcome
    text: str
    error: str | None = None


PaperStep = Begin | WaitForProvider | AskPerson | LetExpire | Judge | CancelBatch | Answer | Finish
NextStep = PaperStep | CallModel | RunCall


def next_steps(state: State, claim: str, max_turns: int) -> Sequence[NextStep]:
    """The frontier of a turn for the claim that owns it. Empty only when the turn has ended.

    An item that was asked and is not decided although the turn is claimed has expired: a turn with an open
    item is parked, and only a decision or its expiry brings it back.
    """
    if state.ended:
        return ()
    if not state.begun:
        return (Begin(),)
    step = state.step
    if step and any(not call.done for call in step.calls):
        return _within_batch(step, claim)
    if step and any(call.judged == "deny" for call in step.calls):
        return (Finish("denied", state.text),)
    if step and not step.calls:
        return (Finish("done", step.text),)
    return (_towards_model(state, claim, max_turns),)


def _towards_model(state: State, claim: str, max_turns: int) -> NextStep:
    if state.attempts:
        last = state.attempts[-1]
        same = sum(1 for attempt in state.attempts if attempt.class_ == last.class_)
        if same >= MOST_ATTEMPTS.get(last.class_, 1):
            return Finish("error", state.text, last.reason)
        if last.wait_ms is not None and last.claim == claim:
            return WaitForProvider(last.wait_ms, last.reason)
    elif len(state.steps) >= max_turns:
        return Finish("max_turns", state.text)
    return CallModel(state.next_at, len(state.attempts) + 1)


def _within_batch(step: Step, claim: str) -> Sequence[NextStep]:
    for call in step.calls:
        if call.verdict == "invalid" and not call.done:
            return (Answer(call, "error", call.reason),)
    calls = [call for call in step.calls if call.verdict != "invalid"]
    if denied := tuple(call for call in calls if call.verdict == "deny"):
        return (CancelBatch(denied, "rule"),)
    for call in calls:
        if paper := _before_running(call):
            return (paper,)
    return _run(calls, claim)


def _before_running(call: Call) -> NextStep | None:
    """What a call still needs from a person. None: it is decided, or needs nobody."""
    if call.done or call.started or call.verdict not in ("ask", "question") or call.judged == "allow":
        return None
    if call.item is None:
        return AskPerson(call, "approval" if call.gated else "question")
    if call.decision is None:
        return LetExpire(call)
    if not call.gated:
        return None
    return Judge(call) if call.decision.approves else CancelBatch((call,), "person")


def _run(calls: Sequence[Call], claim: str) -> Sequence[NextStep]:
    """The first call without a result and, if it only reads, its neighbours that only read."""
    lane: list[NextStep] = []
    for call in calls:
        if call.done:
            continue
        if call.verdict != "question" and call.kind == "read":
            lane.append(RunCall(call))
            continue
        return lane or (_run_alone(call, claim),)
    return lane


def _run_alone(call: Call, claim: str) -> NextStep:
    if call.verdict == "question":
        return _answer_to_question(call)
    if call.started in (None, claim) or call.kind == "idempotent":
        return RunCall(call)
    return _after_interruption(call)


def _answer_to_question(call: Call) -> NextStep:
    decision = call.decision
    if decision is None or decision.what != "answer":
        return Answer(call, "error", "Nobody answered in time.")
    return Answer(call, "ok", decision.text or "")


def _after_interruption(call: Call) -> NextStep:
    """A dead owner had begun this effect and left no result: nobody knows whether it happened."""
    if call.unknown == "fail":
        return Answer(call, "unknown", STOPPED)
    if call.item_kind != "outcome":
        return AskPerson(call, "outcome")
    answer = call.decision.text if call.decision else None
    if answer == RUN_AGAIN:
        return RunCall(call)
    if answer == IT_HAPPENED:
        return Answer(call, "unknown", "The call was interrupted; a person found that it happened. Its output is lost.")
    if answer == IT_FAILED:
        return Answer(call, "error", "The call was interrupted; a person found that it did not happen.")
    return Answer(call, "unknown", STOPPED)


STOPPED = "The call was stopped while it was running and may have had effects. Its outcome is unknown."
NOT_RUN = "The call was not run."
