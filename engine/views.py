"""What API and CLI are shown of turns, sessions and open items. Values and the pure ways to build them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import orjson

from engine.fold import Call, State
from engine.store.keys import turn_id_of

Fields = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class OpenItem:
    """An approval or a question that waits for a person. ``card`` is its event; a question about the outcome of an
    interrupted call has kind `question` and ``is_outcome``."""

    id: str
    kind: Literal["approval", "question"]
    turn_id: str
    session_id: str
    agent: str
    environment: str
    tenant: str
    card: dict[str, Any]
    is_outcome: bool = False


@dataclass(frozen=True, slots=True)
class TurnView:
    """``note`` says why a turn that could run does not; ``blocking`` is the open item that a waiting turn waits for."""

    turn_id: str
    session_id: str
    agent: str
    environment: str
    state: str
    n_events: int
    item: OpenItem | None
    text: str
    stop_reason: str | None
    error: str | None
    note: str | None
    usage: dict[str, int]
    accepted_at: str
    blocking: OpenItem | None = None


@dataclass(frozen=True, slots=True)
class SessionView:
    session_id: str
    agent: str
    state: str
    turn_id: str | None
    item: OpenItem | None
    turns: list[dict[str, Any]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=dict)


def open_item(fields: Fields, ref: str) -> OpenItem | None:
    if fields.get("state") != "parked" or "item" not in fields:
        return None
    card = orjson.loads(fields["card"])
    return OpenItem(
        id=fields["item"],
        kind="approval" if card["kind"] == "approval" else "question",
        turn_id=turn_id_of(ref),
        session_id=fields["sid"],
        agent=fields["agent"],
        environment=fields["env"],
        tenant=fields["tenant"],
        card=card["event"],
        is_outcome=card["kind"] == "outcome",
    )


def turn_view(
    fields: Fields, ref: str, n_events: int, *, note: str | None = None, blocking: OpenItem | None = None
) -> TurnView:
    out = orjson.loads(fields.get("out") or "{}")
    return TurnView(
        turn_id=turn_id_of(ref),
        session_id=fields["sid"],
        agent=fields["agent"],
        environment=fields["env"],
        state=fields["state"],
        n_events=n_events,
        item=open_item(fields, ref),
        text=out.get("text", ""),
        stop_reason=out.get("stopReason"),
        error=out.get("error"),
        note=note,
        usage=out.get("usage", {}),
        accepted_at=iso(int(fields["at"])),
        blocking=blocking,
    )


def iso(ms: int) -> str:
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def transcript(states: Mapping[str, State], active: str | None, active_state: str) -> list[dict[str, Any]]:
    """What was said and done in a session, oldest first, in words and calls."""
    messages: list[dict[str, Any]] = []
    for turn, state in states.items():
        running = turn == active and active_state == "running"
        if state.begun:
            messages.append({"role": "user", "turnId": turn, "text": state.message})
        for step in state.steps:
            said: dict[str, Any] = {"role": "assistant", "turnId": turn, "text": step.text}
            if step.calls:
                said["calls"] = [_call(call, running) for call in step.calls]
            messages.append(said)
    return messages


def _call(call: Call, running: bool) -> dict[str, Any]:
    seen: dict[str, Any] = {"id": call.path, "tool": call.tool, "args": call.args, "status": _status(call, running)}
    if call.done:
        seen["result"] = call.content
    return seen


def _status(call: Call, running: bool) -> str:
    if call.status:
        return call.status
    if call.started:
        return "running" if running else "unknown"
    return "not started"


def usage_of(states: Mapping[str, State]) -> dict[str, int]:
    total: dict[str, int] = {}
    for state in states.values():
        for name, count in state.usage.items():
            total[name] = total.get(name, 0) + count
    return total
