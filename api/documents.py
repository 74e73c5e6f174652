"""Bodies, answers and problems as OpenAPI shows them. Documentation only: nothing here is checked at run time."""

from __future__ import annotations

from typing import Any

from protocol.answers import Problem, TurnDone, TurnPending, TurnRunning
from protocol.shapes import Wire

Responses = dict[int | str, dict[str, Any]]


def body_of(model: type[Wire], *, required: bool = True) -> dict[str, Any]:
    """For ``openapi_extra``: the request body, which ``api.body`` reads."""
    schema = model.model_json_schema(by_alias=True)
    return {"requestBody": {"required": required, "content": {"application/json": {"schema": schema}}}}


def headers(*named: tuple[str, str]) -> dict[str, Any]:
    """For ``openapi_extra``: optional request headers with what they mean."""
    return {
        "parameters": [
            {"name": name, "in": "header", "required": False, "description": meaning, "schema": {"type": "string"}}
            for name, meaning in named
        ]
    }


def problems(**told: str) -> Responses:
    """``problems(e404="No such turn")``."""
    return {
        int(code[1:]): {"description": text, "content": {"application/problem+json": {"schema": _PROBLEM}}}
        for code, text in told.items()
    }


_PROBLEM = Problem.model_json_schema(by_alias=True)

TURN_ANSWERS: Responses = {
    200: {"model": TurnDone, "description": "The turn is over."},
    202: {
        "model": TurnPending | TurnRunning,
        "description": "The turn waits for a person, or it was still running when the waiting time was up.",
    },
}
BODY_PROBLEMS = problems(
    e400="The body is not acceptable JSON.",
    e413="The body is too large.",
    e415="The body is not JSON, or compressed.",
    e422="A field is not acceptable.",
    e503="The operator has to act: store, agent or model key.",
)
EVENT_STREAM: Responses = {
    200: {"description": "The turn's events as Server-Sent Events.", "content": {"text/event-stream": {}}},
    204: {"description": "Last-Event-ID is at `done`: nothing follows."},
}
WAIT = ("Prefer", "`wait=N`: wait at most N seconds; `respond-async`: do not wait (RFC 7240).")
KEY = ("Idempotency-Key", "1 to 255 printable ASCII characters: sent again, the request finds its turn.")
LAST_EVENT_ID = ("Last-Event-ID", "The id of the last event received: what follows it is sent.")
