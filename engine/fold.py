"""The state of a turn, folded from its records. Pure and total: defined on every prefix of every log.

Owns what a record *means*. What may happen next is plan.py's, how it looks to a model projection.py's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.records import VERSION, Record
from protocol.errors import LoopEngineError

Verdict = Literal["allow", "ask", "deny", "question", "invalid"]


class TooNew(LoopEngineError):
    """A record was written by a newer version: this worker gives the turn back to one that understands it."""


@dataclass(slots=True)
class Decision:
    what: str  # approve | deny | answer | expired
    by: str
    at: str
    text: str | None

    @property
    def approves(self) -> bool:
        return self.what == "approve"


@dataclass(slots=True)
class Call:
    """One tool call of a model answer. ``path`` is its identity: "2.0" is call 0 of the second answer."""

    path: str
    pos: int
    use_id: str  # the provider's own id, for its eyes only
    tool: str
    args: dict[str, Any]
    digest: str
    kind: str  # read | idempotent | effect
    verdict: Verdict
    rule: str | None
    reason: str  # the rule's reason; for an invalid call what is wrong with it
    unknown: str  # what follows an interrupted effect: ask | fail
    item: str | None = None
    item_kind: str | None = None
    items: int = 0
    decision: Decision | None = None
    judged: str | None = None  # allow | deny, after a person's decision
    started: str | None = None  # claim of the latest intent
    intents: int = 0
    status: str | None = None
    content: str = ""

    @property
    def done(self) -> bool:
        return self.status is not None

    @property
    def gated(self) -> bool:
        return self.verdict == "ask"


@dataclass(slots=True)
class Step:
    """One answer of the model."""

    at: str
    blocks: list[dict[str, Any]]
    stop: str
    provider: str
    calls: list[Call]

    @property
    def text(self) -> str:
        return "".join(b["text"] for b in self.blocks if b.get("type") == "text" and isinstance(b.get("text"), str))


@dataclass(slots=True)
class Attempt:
    n: int
    class_: str
    reason: str
    claim: str
    wait_ms: int | None


@dataclass(slots=True)
class Ended:
    outcome: str
    text: str
    error: str | None


@dataclass(slots=True)
class State:
    turn: str
    begun: bool = False
    message: str = ""
    agent: str = ""
    environment: str = ""
    steps: list[Step] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)  # since the latest answer
    notes: list[tuple[int, str]] = field(default_factory=list)  # (after how many answers, text)
    ended: Ended | None = None
    usage: dict[str, int] = field(default_factory=dict)
    used_ms: int = 0  # running time, as of the latest record of an owner

    @property
    def step(self) -> Step | None:
        return self.steps[-1] if self.steps else None

    @property
    def next_at(self) -> str:
        return str(len(self.steps) + 1)

    @property
    def text(self) -> str:
        """The latest thing the model said in words."""
        return next((step.text for step in reversed(self.steps) if step.text.strip()), "")

    def call(self, path: str) -> Call | None:
        at, _, pos = path.partition(".")
        if not (at.isdecimal() and pos.isdecimal()) or not 0 < int(at) <= len(self.steps):
            return None
        calls = self.steps[int(at) - 1].calls
        return calls[int(pos)] if int(pos) < len(calls) else None

    def call_of_item(self, item: str) -> Call | None:
        return self.call(path_of_item(item))


def path_of_item(item: str) -> str:
    """An item id is <turn>.<path>.<k>."""
    return item.split(".", 1)[-1].rpartition(".")[0]


def fold(records: Iterable[Record], turn: str) -> State:
    state = State(turn)
    for record in records:
        if record.get("turn") == turn:
            apply(state, record)
    return state


def apply(state: State, record: Record) -> None:
    """Take one more record of the turn into its state. A record that fits nothing changes nothing."""
    if record.get("v", 1) > VERSION:
        if record.get("note"):
            return
        raise TooNew(f"turn {state.turn} has a record of version {record['v']}; this worker reads up to {VERSION}")
    state.used_ms = max(state.used_ms, record.get("used", 0))
    handler = _HANDLERS.get(record["t"])
    if handler is not None:
        handler(state, record)


def _turn(state: State, r: Record) -> None:
    state.begun, state.message, state.agent, state.environment = True, r["in"], r["agent"], r["env"]


def _model(state: State, r: Record) -> None:
    calls = [
        Call(
            path=f"{r['at']}.{c['pos']}",
            pos=c["pos"],
            use_id=c["id"],
            tool=c["tool"],
            args=c["args"],
            digest=c["digest"],
            kind=c["kind"],
            verdict=c["verdict"],
            rule=c["rule"],
            reason=c["reason"],
            unknown=c["unknown"],
        )
        for c in r["calls"]
    ]
    state.steps.append(Step(r["at"], r["blocks"], r["stop"], r["provider"], calls))
    state.attempts.clear()
    for name, count in r["usage"].items():
        state.usage[name] = state.usage.get(name, 0) + count


def _attempt(state: State, r: Record) -> None:
    state.attempts.append(Attempt(r["n"], r["class"], r["reason"], r["claim"], r["wait_ms"]))


def _asked(state: State, r: Record) -> None:
    if call := state.call(r["at"]):
        call.item, call.item_kind, call.decision = r["item"], r["kind"], None
        call.items += 1


def _decided(state: State, r: Record) -> None:
    call = state.call_of_item(r["item"])
    if call and call.item == r["item"] and call.decision is None:
        call.decision = Decision(r["what"], r["by"], r["decided_at"], r["text"])


def _judged(state: State, r: Record) -> None:
    if call := state.call(r["at"]):
        call.judged = r["verdict"]


def _started(state: State, r: Record) -> None:
    for intent in r["calls"]:
        if call := state.call(intent["at"]):
            call.started = r["claim"]
            call.intents += 1
            if call.item_kind == "outcome":
                # "run again" is used up by this intent: should it be interrupted too, a person is asked anew.
                call.item = call.item_kind = call.decision = None


def _result(state: State, r: Record) -> None:
    call = state.call(r["at"])
    if call and not call.done:
        call.status, call.content = r["status"], r["content"]


def _context(state: State, r: Record) -> None:
    if r["note"] == "nudge":
        state.notes.append((len(state.steps), r["text"]))


def _ended(state: State, r: Record) -> None:
    state.ended = Ended(r["outcome"], r["text"], r["error"])


_HANDLERS = {
    "turn": _turn,
    "model": _model,
    "attempt": _attempt,
    "asked": _asked,
    "decided": _decided,
    "judged": _judged,
    "started": _started,
    "result": _result,
    "context": _context,
    "ended": _ended,
}
