"""What each step puts on paper: its records for the log and its events for the stream. Pure.

A draft becomes durable with the commit that it rides on. The words that models and people see stand here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from engine import records as r
from engine.fold import Call, State, Step
from engine.plan import (
    NOT_RUN,
    OUTCOME_ANSWERS,
    STOPPED,
    Answer,
    AskPerson,
    Begin,
    CancelBatch,
    Finish,
    Judge,
    LetExpire,
    PaperStep,
    RunCall,
    WaitForProvider,
)
from engine.records import Record
from engine.store.store import Ending
from protocol.json_text import dumps

Event = dict[str, Any]

STATUS_TEXT = {
    "ok": "Approved.",
    "error": "Error.",
    "denied": "Denied.",
    "skipped": "Skipped.",
    "cancelled": "Cancelled.",
    "unknown": "Unknown.",
}


@dataclass(frozen=True, slots=True)
class Terms:
    """What stays the same while one claim works on a turn."""

    turn_id: str
    session_id: str
    tenant: str
    environment: str
    agent: str
    message: str
    claim: str
    fingerprint: str = ""
    max_turns: int = 25
    approval_expiry_s: float | None = None


@dataclass(slots=True)
class Draft:
    records: list[Record] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    ending: Ending | None = None


def write_down(step: PaperStep, state: State, terms: Terms, now: datetime) -> Draft:
    """A paper step, in full."""
    match step:
        case Begin():
            return Draft([r.turn_begun(terms.message, terms.agent, terms.environment, terms.fingerprint)])
        case WaitForProvider(delay_ms, reason):
            return Draft(ending=Ending("queue", delay_ms, f"waiting for the model provider: {reason}"))
        case AskPerson():
            return _ask(step, terms, now)
        case LetExpire(call):
            return Draft([r.person_decided(call.item or "", "expired", "", _iso(now), call.digest, None)])
        case Judge(call):
            return _judge(call, state)
        case CancelBatch():
            return _cancel_batch(step, state)
        case Answer(call, status, content):
            return Draft([r.call_resulted(call.path, status, content)], [tool_result(call, status)])
        case Finish(outcome, text, error):
            return finish(outcome, text, error, state, terms)


def _ask(step: AskPerson, terms: Terms, now: datetime) -> Draft:
    call = step.call
    item = f"{terms.turn_id}.{call.path}.{call.items + 1}"
    expiry_s = terms.approval_expiry_s if step.kind == "approval" else None
    event: Event
    question, options = None, None
    if step.kind == "approval":
        scope = {"tenant": terms.tenant, "environment": terms.environment, "agent": terms.agent}
        event = {"type": "approval:pending", "id": item, "tool": call.tool, "args": call.args, "scope": scope}
        event |= {"reason": call.reason, "digest": call.digest}
    else:
        question, options = _question(step)
        event = {"type": "question:pending", "id": item, "question": question, "agent": terms.agent}
        if options:
            event["options"] = options
    event |= {"requestedAt": _iso(now), "turnId": terms.turn_id, "sessionId": terms.session_id}
    if expiry_s is not None:
        event["expiresAt"] = _iso(now + timedelta(seconds=expiry_s))
    record = r.person_asked(call.path, item, step.kind, call.digest, question, options, event.get("expiresAt"))
    card = dumps({"kind": step.kind, "digest": call.digest, "event": event}).decode()
    ending = Ending("park", int((expiry_s or 0) * 1000), card, item, call.digest)
    return Draft([record], [event], ending)


def _question(step: AskPerson) -> tuple[str, list[str] | None]:
    call = step.call
    if step.kind == "outcome":
        words = f"{call.tool} was interrupted while it was running with {dumps(call.args).decode()}. "
        words += "Nobody knows whether it had its effect. Please find out, then choose."
        return words, list(OUTCOME_ANSWERS)
    return call.args["question"], call.args.get("options")


def _judge(call: Call, state: State) -> Draft:
    decision = call.decision
    by = f"approved by {decision.by}" if decision else "approved"
    events = [decision_event(call, "allow", by), *announcements(state.step, after=call.pos)]
    return Draft([r.call_judged(call.path, "allow", by, call.digest)], events)


def _cancel_batch(step: CancelBatch, state: State) -> Draft:
    """The whole batch is off: the denied calls are told why, the others that they were skipped with them."""
    draft = Draft()
    batch = state.step.calls if state.step else []
    names = [call.tool for call in step.denied]
    if step.by == "rule":
        draft.events += [decision_event(c, c.verdict) for c in batch if c.verdict in ("allow", "ask", "deny")]
    for call in step.denied if step.by == "person" else ():
        draft.records.append(r.call_judged(call.path, "deny", denial(call), call.digest))
        draft.events.append(decision_event(call, "deny", denial(call)))
    for call in batch:
        if call.done:
            continue
        if call in step.denied:
            why = call.reason if step.by == "rule" else denial(call)
            draft.records.append(r.call_resulted(call.path, "denied", f"The call was denied: {why}."))
            draft.events.append(tool_result(call, "denied"))
        else:
            words = f"The call was not run, because {', '.join(names)} in the same answer was denied."
            draft.records.append(r.call_resulted(call.path, "skipped", words))
            draft.events.append({"type": "loop:skipped", "name": call.tool, "deniedTools": names})
            draft.events.append(tool_result(call, "skipped"))
    return draft


def denial(call: Call) -> str:
    decision = call.decision
    if decision is None or decision.what == "expired":
        return "expired: nobody decided in time"
    return f"denied by {decision.by}" + (f": {decision.text}" if decision.text else "")


def finish(outcome: r.Outcome, text: str, error: str | None, state: State, terms: Terms) -> Draft:
    events: list[Event] = []
    if outcome == "done":
        events.append({"type": "loop:done", "text": text})
    elif outcome == "max_turns":
        events.append({"type": "loop:max_turns", "maxTurns": terms.max_turns})
    elif outcome == "denied":
        denied = [c.tool for c in (state.step.calls if state.step else []) if c.judged == "deny"]
        events.append({"type": "loop:denied", "deniedTools": denied})
    elif outcome == "error":
        events.append({"type": "error", "error": error or "unknown error"})
    done: Event = {"type": "done", "text": text}
    if outcome != "done":
        done["stopReason"] = outcome
    events.append(done)
    result = {"text": text, "stopReason": done.get("stopReason"), "error": error, "usage": state.usage}
    return Draft([r.turn_ended(outcome, text, error)], events, Ending("done", body=dumps(result).decode()))


def close(outcome: r.Outcome, error: str | None, state: State, terms: Terms) -> Draft:
    """End a turn wherever it stands (cancelled by a client, given up): every open call gets its one result."""
    draft = Draft()
    if not state.begun:
        draft = write_down(Begin(), state, terms, datetime.min)
    status: r.Status = "cancelled" if outcome == "cancelled" else "error"
    for call in state.step.calls if state.step else []:
        if not call.done:
            draft.records.append(r.call_resulted(call.path, status, STOPPED if call.started else NOT_RUN))
            draft.events.append(tool_result(call, status))
    end = finish(outcome, state.text, error, state, terms)
    return Draft(draft.records + end.records, draft.events + end.events, end.ending)


def close_waiting(terms: Terms) -> Draft:
    """End a turn that never had its session: events only, so that the log keeps one turn after the other."""
    return Draft(events=finish("cancelled", "", None, State(terms.turn_id), terms).events, ending=Ending("done"))


def open_calls(steps: Iterable[RunCall], terms: Terms) -> Draft:
    """The intent of the calls that are about to run. A call that runs again starts silently."""
    calls = [step.call for step in steps if step.call.started != terms.claim]
    if not calls:
        return Draft()
    intents = [
        {"at": c.path, "digest": c.digest, "key": idempotency_key(terms, c), "uses": c.item if c.decision else None}
        for c in calls
    ]
    events: list[Event] = [
        {"type": "tool:started", "id": c.path, "tool": c.tool, "args": c.args, "detailText": c.reason}
        for c in calls
        if c.intents == 0
    ]
    return Draft([r.calls_started(terms.claim, intents)], events)


def idempotency_key(terms: Terms, call: Call) -> str:
    return f"{terms.turn_id}.{call.path}"


def model_answered(record: Record, step: Step) -> Draft:
    """The model's answer, the results of its invalid calls, and what the rules let pass without asking anybody.
    ``step`` is the record as folded."""
    draft = Draft([record])
    if step.calls and step.text.strip():
        draft.events.append({"type": "assistant:text", "text": step.text})
    for call in step.calls:
        if call.verdict == "invalid":
            draft.records.append(r.call_resulted(call.path, "error", call.reason))
            draft.events.append(tool_result(call, "error", call.reason))
    if not any(call.verdict == "deny" for call in step.calls):
        draft.events += announcements(step)
    return draft


def announcements(step: Step | None, after: int = -1) -> list[Event]:
    """`actauth:decision` of the allowed calls behind ``after``, up to the next one that a person must decide."""
    events: list[Event] = []
    for call in step.calls[after + 1 :] if step else ():
        if call.verdict == "ask":
            break
        if call.verdict == "allow":
            events.append(decision_event(call, "allow"))
    return events


def call_resulted(call: Call, status: r.Status, content: str, ms: int) -> Draft:
    summary = content if len(content) <= 200 else content[:200] + "…"
    lane = {"type": "toollane:result", "name": call.tool, "summary": summary}
    return Draft([r.call_resulted(call.path, status, content, ms)], [lane, tool_result(call, status, call.reason)])


def decision_event(call: Call, decision: str, reason: str | None = None) -> Event:
    return {"type": "actauth:decision", "tool": call.tool, "decision": decision, "reason": reason or call.reason}


def tool_result(call: Call, status: r.Status, detail: str | None = None) -> Event:
    event: Event = {"type": "tool:result", "id": call.path, "tool": call.tool, "statusText": STATUS_TEXT[status]}
    if detail:
        event["detailText"] = detail
    return event


def resumed(deaths: int) -> Draft:
    reason = "its worker was lost; finished steps are kept"
    return Draft(events=[{"type": "turn:resumed", "attempt": deaths, "reason": reason}])


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
