"""Drives the planner through turns of its own making: what the world answers (models, tools, people, crashes) is drawn
at random. No store and no clock: only fold, planner, drafts and projection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any, get_args

from engine import drafts, records as r
from engine.drafts import Terms
from engine.fold import Call, State, apply
from engine.plan import (
    OUTCOME_ANSWERS,
    Answer,
    AskPerson,
    Begin,
    CallModel,
    CancelBatch,
    Finish,
    Judge,
    LetExpire,
    NextStep,
    PaperStep,
    RunCall,
    WaitForProvider,
    next_steps,
)
from engine.records import Record
from protocol.json_text import digest_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MAX_TURNS = 4

# kind of call -> verdict, kind of its tool, what follows an interrupted effect
KINDS: dict[str, tuple[str, str, str]] = {
    "read": ("allow", "read", "ask"),
    "idem": ("allow", "idempotent", "ask"),
    "act": ("allow", "effect", "ask"),
    "fragile": ("allow", "effect", "fail"),
    "pay": ("ask", "effect", "ask"),
    "gated read": ("ask", "read", "ask"),
    "forbidden": ("deny", "effect", "ask"),
    "question": ("question", "read", "ask"),
    "invalid": ("invalid", "effect", "ask"),
}
RUNNABLE = ("read", "idem", "act", "fragile", "pay", "gated read")


def answered(at: str, kinds: Sequence[str], text: str = "", blocks: Sequence[dict[str, Any]] = ()) -> Record:
    """The record of an answer with one call of each kind."""
    uses, calls = [], []
    for pos, kind in enumerate(kinds):
        verdict, tool_kind, unknown = KINDS[kind]
        args: dict[str, Any] = {"question": "which?"} if kind == "question" else {"n": pos}
        use = {"type": "tool_use", "id": f"use_{at}_{pos}", "name": kind, "input": args}
        uses.append(use)
        call = {"pos": pos, "id": use["id"], "tool": kind, "args": args, "digest": digest_of(kind, args)}
        call |= {"kind": tool_kind, "verdict": verdict, "rule": None, "reason": "because", "unknown": unknown}
        calls.append(call)
    texts = [{"type": "text", "text": text}] if text else []
    stop = "tool_use" if kinds else "end_turn"
    return r.model_answered(at, [*blocks, *texts, *uses], stop, {"inputTokens": 1}, "anthropic", "m", calls)


def terms_of(turn: str, claim: str) -> Terms:
    return Terms(turn, "s", "acme", "test", "agent", f"hello {turn}", claim, max_turns=MAX_TURNS, approval_expiry_s=60)


@dataclass
class Driven:
    """One turn on its way: its state, its records, and the claim that owns it."""

    turn: str
    records: list[Record] = field(default_factory=list)
    claims: int = 1
    state: State = field(init=False)

    def __post_init__(self) -> None:
        self.state = State(self.turn)

    @property
    def claim(self) -> str:
        return f"claim-{self.claims}"

    @property
    def terms(self) -> Terms:
        return terms_of(self.turn, self.claim)

    def next(self) -> Sequence[NextStep]:
        return next_steps(self.state, self.claim, MAX_TURNS)

    def write(self, *records: Record) -> None:
        for record in records:
            stamped = record | {"turn": self.turn}
            self.records.append(stamped)
            apply(self.state, stamped)

    def put_down(self, step: NextStep) -> drafts.Draft:
        """A paper step becomes records; a parked or queued turn is claimed anew by whoever comes next."""
        assert isinstance(step, get_args(PaperStep))
        draft = drafts.write_down(step, self.state, self.terms, NOW)
        self.write(*draft.records)
        if draft.ending and draft.ending.kind != "done":
            self.claims += 1
        return draft

    def decide(self, call: Call, what: str, text: str | None = None) -> None:
        self.write(r.person_decided(call.item or "", what, "ann", "2026-01-01T00:00:00Z", call.digest, text))

    def begin_calls(self, steps: Sequence[NextStep]) -> None:
        runs = [step for step in steps if isinstance(step, RunCall)]
        self.write(*drafts.open_calls(runs, self.terms).records)

    def end_call(self, step: NextStep, status: r.Status = "ok") -> None:
        assert isinstance(step, RunCall)
        self.write(*drafts.call_resulted(step.call, status, "done", 1).records)


def drive(turn: str, rng: Random, most_steps: int = 400) -> Driven:
    """A turn from its first record to its last, or to where somebody cancelled it."""
    driven = Driven(turn)
    for _ in range(most_steps):
        steps = driven.next()
        if not steps:
            return driven
        if rng.random() < 0.02:
            driven.write(*drafts.close("cancelled", None, driven.state, driven.terms).records)
        elif rng.random() < 0.05:
            driven.claims += 1  # its worker died before the step
        else:
            _take(driven, steps, rng)
    raise AssertionError(f"no end after {most_steps} steps: {driven.records}")


def _take(driven: Driven, steps: Sequence[NextStep], rng: Random) -> None:
    match steps[0]:
        case CallModel(at, attempt):
            _ask_model(driven, at, attempt, rng)
        case RunCall():
            _run(driven, steps, rng)
        case AskPerson(call, kind):
            driven.put_down(steps[0])
            _decide(driven, call, kind, rng)
        case _:
            driven.put_down(steps[0])


def _ask_model(driven: Driven, at: str, attempt: int, rng: Random) -> None:
    chance = rng.random()
    if chance < 0.2:
        class_ = rng.choice(["retry", "cut", "truncated", "empty", "too_long", "fatal"])
        wait_ms = 1000 if class_ == "retry" else None
        driven.write(r.attempt_failed(at, attempt, class_, "it failed", driven.claim, wait_ms))  # type: ignore[arg-type]
        return
    kinds = rng.choices(list(KINDS), k=rng.choice([0, 1, 1, 2, 3, 4]))
    text = rng.choice(["", "let me see", "  "]) if kinds else "that is all"
    thinking = {"type": "thinking", "thinking": "hm", "signature": f"{driven.turn}.{at}"}
    record = answered(at, kinds, text, [thinking] if rng.random() < 0.3 else [])
    driven.write(record)
    assert driven.state.step
    driven.write(*drafts.model_answered(record, driven.state.step).records[1:])
    if rng.random() < 0.2:
        driven.write(r.context_noted("nudge", "come to an end", at))


def _run(driven: Driven, steps: Sequence[NextStep], rng: Random) -> None:
    driven.begin_calls(steps)
    order = list(steps)
    rng.shuffle(order)
    for step in order:
        if rng.random() < 0.15:
            driven.claims += 1  # its worker died while it ran
            return
        driven.end_call(step, rng.choice(["ok", "ok", "error"]))


def _decide(driven: Driven, call: Call, kind: str, rng: Random) -> None:
    if kind == "approval":
        what = rng.choice(["approve", "approve", "deny", "expire"])
        if what != "expire":  # an item that expires is closed by the next claim; the planner finds it undecided
            driven.decide(call, what, rng.choice([None, "no"]))
    elif kind == "outcome":
        driven.decide(call, "answer", rng.choice(OUTCOME_ANSWERS))
    else:
        driven.decide(call, "answer", "blue")


def told(steps: Sequence[NextStep]) -> str:
    """A frontier in words."""
    match steps:
        case [RunCall(), *_]:
            return "run " + ", ".join(step.call.tool for step in steps if isinstance(step, RunCall))
        case [AskPerson(call, kind)]:
            return f"ask {kind} {call.tool}"
        case [Judge(call)]:
            return f"judge {call.tool}"
        case [LetExpire(call)]:
            return f"expire {call.tool}"
        case [CancelBatch(denied, by)]:
            return f"cancel by {by}: " + ", ".join(call.tool for call in denied)
        case [Answer(call, status, _)]:
            return f"answer {call.tool} {status}"
        case [CallModel(at, attempt)]:
            return f"model {at}" + (f" attempt {attempt}" if attempt > 1 else "")
        case [WaitForProvider(delay_ms, _)]:
            return f"wait {delay_ms}"
        case [Finish(outcome, _, _)]:
            return f"finish {outcome}"
        case [Begin()]:
            return "begin"
        case []:
            return "nothing"
    raise AssertionError(steps)
