"""What the API says about turns, sessions and open items: the runtime's views as JSON bodies.

The two shapes of ``POST messages`` and of decisions come from ``protocol.answers``; the status bodies of the GET
routes are made here. Events are spliced in as stored bytes, never parsed or validated on the way out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import Response

from api.paths import status_url
from engine.store.store import Entry
from engine.views import OpenItem, SessionView, TurnView
from protocol import answers
from protocol.json_text import dumps


class Json(Response):
    media_type = "application/json"

    def __init__(self, body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(dumps(body), status, dict(headers or {}))


def turn_answer(view: TurnView, entries: list[Entry], decision: dict[str, Any] | None) -> tuple[int, dict[str, Any]]:
    """Status and body of one of the two shapes: 200 when the turn is over, 202 with what it waits for."""
    # The turn may have moved on since the view was taken; the answer is of one moment.
    events = [entry.event for entry in entries[: view.n_events]]
    known: dict[str, Any] = {
        "session_id": view.session_id,
        "turn_id": view.turn_id,
        "events": events,
        "decision": decision,
    }
    if view.state == "done":
        return 200, answers.turn_done(text=view.text, stop_reason=view.stop_reason, **known)
    known["status_url"] = status_url(view.agent, view.session_id)
    if view.item is not None:
        return 202, answers.turn_pending(card=view.item.card, **known)
    if view.blocking is not None:
        return 202, answers.turn_pending(card=view.blocking.card, queued=True, **known)
    return 202, answers.turn_running(state=view.state, note=view.note, **known)


def item_body(item: OpenItem) -> dict[str, Any]:
    """An open item in the inbox: its card, where it belongs, where it is decided."""
    return {
        **item.card,
        "type": item.kind,
        "agent": item.agent,
        "sessionId": item.session_id,
        "turnId": item.turn_id,
        **answers.item_links(item.card),
        "statusUrl": status_url(item.agent, item.session_id),
    }


def turn_body(view: TurnView, entries: list[Entry]) -> dict[str, Any]:
    return _present(
        turnId=view.turn_id,
        sessionId=view.session_id,
        agent=view.agent,
        environment=view.environment,
        state=view.state,
        note=view.note,
        item=item_body(view.item) if view.item else None,
        blocking=item_body(view.blocking) if view.blocking else None,
        text=view.text if view.state == "done" else None,
        stopReason=view.stop_reason,
        error=view.error,
        usage=view.usage,
        acceptedAt=view.accepted_at,
        statusUrl=status_url(view.agent, view.session_id),
        events=orjson.Fragment(b"[" + b",".join(entry.event for entry in entries) + b"]"),
    )


def session_body(view: SessionView) -> dict[str, Any]:
    return _present(
        sessionId=view.session_id,
        agent=view.agent,
        state=view.state,
        turnId=view.turn_id,
        item=item_body(view.item) if view.item else None,
        turns=view.turns,
        messages=view.messages,
        usage=view.usage,
        streamUrl=f"{status_url(view.agent, view.session_id)}/stream",
    )


def _present(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}
