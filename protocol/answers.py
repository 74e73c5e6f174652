"""What HTTP answers carry: the models document it (OpenAPI), the builders make it, cheaply, as plain dicts.

Builders take events as the JSON bytes they were stored as and never parse them; encode the result with
``json_text.dumps``. ``None`` always means: leave the member out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal

import orjson
from pydantic import ConfigDict

from protocol.errors import CallerError
from protocol.events import LoopEvent, Scope, StopReason
from protocol.shapes import JsonObject, Maybe, Moment, Wire

PROBLEM_TYPES = "https://loopengine.dev/problems/"


class DecisionView(Wire):
    """The decision that counts for an item, whoever asks."""

    what: Literal["approve", "deny", "answer"]
    by: str
    at: Moment
    digest: str | None = None


class TurnDone(Wire):
    """200: the turn is over."""

    text: str
    session_id: str
    turn_id: str
    events: list[LoopEvent]
    stop_reason: Maybe[StopReason] = None
    """Absent when the model finished by itself."""
    decision: Maybe[DecisionView] = None


class _Unfinished(Wire):
    pending: Literal[True]
    session_id: str
    turn_id: str
    events: list[LoopEvent]
    status_url: str
    decision: Maybe[DecisionView] = None


class ApprovalNeeded(_Unfinished):
    """202: parked until somebody approves or denies."""

    type: Literal["approval"]
    id: str
    tool: str
    args: JsonObject
    scope: Scope
    reason: str
    digest: str
    expires_at: Maybe[Moment] = None
    approve_url: str
    deny_url: str
    queued: Maybe[Literal[True]] = None
    """True: ``turn_id`` is the new turn, which waits behind the turn that this item blocks."""


class AnswerNeeded(_Unfinished):
    """202: parked until somebody answers."""

    type: Literal["question"]
    id: str
    question: str
    options: Maybe[list[str]] = None
    expires_at: Maybe[Moment] = None
    answer_url: str
    queued: Maybe[Literal[True]] = None


TurnPending = ApprovalNeeded | AnswerNeeded


class TurnRunning(_Unfinished):
    """202: neither over nor parked when the waiting time was up; ``status_url`` tells how it goes on."""

    type: Literal["running"]
    state: Literal["waiting", "queued", "running", "parked", "done"]
    note: Maybe[str] = None
    """Why it does not run, for example that no worker is there."""


class Problem(Wire):
    """RFC 9457, as application/problem+json. Some kinds carry further members, such as ``decision`` or ``item``."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    error: str
    """The same sentence as ``detail``, where clients of the original look for it."""


def turn_done(
    *,
    text: str,
    session_id: str,
    turn_id: str,
    events: Iterable[bytes],
    stop_reason: str | None = None,
    decision: JsonObject | None = None,
) -> dict[str, Any]:
    return _present(
        text=text,
        sessionId=session_id,
        turnId=turn_id,
        events=_array(events),
        stopReason=stop_reason,
        decision=decision,
    )


def turn_pending(
    *,
    card: JsonObject,
    session_id: str,
    turn_id: str,
    events: Iterable[bytes],
    status_url: str,
    queued: bool = False,
    decision: JsonObject | None = None,
) -> dict[str, Any]:
    """``card``: the ``approval:pending`` or ``question:pending`` event of the open item."""
    approval = card["type"] == "approval:pending"
    shown = ("tool", "args", "scope", "reason", "digest", "expiresAt") if approval else _QUESTION_MEMBERS
    return _present(
        pending=True,
        type="approval" if approval else "question",
        id=card["id"],
        sessionId=session_id,
        turnId=turn_id,
        **{name: card.get(name) for name in shown},
        **item_links(card),
        events=_array(events),
        statusUrl=status_url,
        queued=queued or None,
        decision=decision,
    )


_QUESTION_MEMBERS = ("question", "options", "expiresAt")


def turn_running(
    *,
    session_id: str,
    turn_id: str,
    state: str,
    events: Iterable[bytes],
    status_url: str,
    note: str | None = None,
    decision: JsonObject | None = None,
) -> dict[str, Any]:
    return _present(
        pending=True,
        type="running",
        sessionId=session_id,
        turnId=turn_id,
        state=state,
        note=note,
        events=_array(events),
        statusUrl=status_url,
        decision=decision,
    )


def item_links(card: JsonObject) -> dict[str, str]:
    """Where an open item is decided. Item ids are url-safe by construction."""
    if card["type"] == "approval:pending":
        base = f"/approvals/{card['id']}"
        return {"approveUrl": f"{base}/approve", "denyUrl": f"{base}/deny"}
    return {"answerUrl": f"/questions/{card['id']}/answer"}


def problem(*, kind: str, title: str, status: int, detail: str, extra: JsonObject | None = None) -> dict[str, Any]:
    """``kind``: the last part of the problem's type URI. ``extra`` never replaces a standard member."""
    standard = {"type": PROBLEM_TYPES + kind, "title": title, "status": status, "detail": detail, "error": detail}
    return {**(extra or {}), **standard}


def problem_of(error: CallerError) -> dict[str, Any]:
    kind = re.sub(r"(?<!^)(?=[A-Z])", "-", type(error).__name__).lower()
    return problem(kind=kind, title=error.title, status=error.status, detail=error.detail, extra=error.extra)


def _array(events: Iterable[bytes]) -> orjson.Fragment:
    return orjson.Fragment(b"[" + b",".join(events) + b"]")


def _present(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}
