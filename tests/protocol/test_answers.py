"""HTTP answers: what the builders make is what the models document."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from pydantic import TypeAdapter

from protocol.answers import (
    Problem,
    TurnDone,
    TurnPending,
    TurnRunning,
    item_links,
    problem,
    problem_of,
    turn_done,
    turn_pending,
    turn_running,
)
from protocol.errors import AlreadyDecided, CallerError, InvalidRequest, MalformedRequest, NotFound
from protocol.json_text import dumps

EVENTS = [dumps({"type": "session", "sessionId": "s\u00e9", "turnId": "t_1"})]
DECISION = {"what": "approve", "by": "alice", "at": "2026-08-28T01:34:32.193Z", "digest": "0" * 32}
APPROVAL = {
    "type": "approval:pending",
    "id": "t_1.1.0.1",
    "tool": "issue_refund",
    "args": {"orderId": "A-1001", "note": None},
    "scope": {"tenant": "default", "environment": "production", "agent": "customer-service"},
    "reason": "rule refunds-need-approval asks",
    "requestedAt": "2026-08-28T01:34:32.193Z",
    "digest": "0" * 32,
    "expiresAt": "2026-08-29T01:34:32.193Z",
}
QUESTION = {
    "type": "question:pending",
    "id": "t_1.1.0.1",
    "question": "Which colour?",
    "options": ["red", "blue"],
    "agent": "customer-service",
    "requestedAt": "2026-08-28T01:34:32.193Z",
}
PLACE: dict[str, Any] = {"session_id": "s\u00e9", "turn_id": "t_1", "events": EVENTS}
STATUS = "/agents/customer-service/sessions/s%C3%A9"


def sent(answer: dict[str, Any]) -> dict[str, Any]:
    read: dict[str, Any] = orjson.loads(dumps(answer))
    return read


def test_a_finished_turn() -> None:
    plain = sent(turn_done(text="Hi", **PLACE))
    assert plain == {"text": "Hi", "sessionId": "s\u00e9", "turnId": "t_1", "events": [orjson.loads(EVENTS[0])]}
    full = sent(turn_done(text="", stop_reason="denied", decision=DECISION, **PLACE))
    assert (full["stopReason"], full["decision"]) == ("denied", DECISION)
    for answer in (plain, full):
        assert TurnDone.model_validate(answer).to_dict() == answer


def test_a_turn_that_waits_for_approval() -> None:
    answer = sent(turn_pending(card=APPROVAL, status_url=STATUS, queued=True, decision=DECISION, **PLACE))
    assert answer == {
        "pending": True,
        "type": "approval",
        "id": "t_1.1.0.1",
        "sessionId": "s\u00e9",
        "turnId": "t_1",
        "tool": "issue_refund",
        "args": {"orderId": "A-1001", "note": None},
        "scope": APPROVAL["scope"],
        "reason": APPROVAL["reason"],
        "digest": "0" * 32,
        "expiresAt": APPROVAL["expiresAt"],
        "approveUrl": "/approvals/t_1.1.0.1/approve",
        "denyUrl": "/approvals/t_1.1.0.1/deny",
        "events": [orjson.loads(EVENTS[0])],
        "statusUrl": STATUS,
        "queued": True,
        "decision": DECISION,
    }
    documented: TypeAdapter[TurnPending] = TypeAdapter(TurnPending)
    assert documented.validate_python(answer).to_dict() == answer


def test_a_turn_that_waits_for_an_answer() -> None:
    answer = sent(turn_pending(card=QUESTION, status_url=STATUS, **PLACE))
    assert answer["type"] == "question"
    assert answer["options"] == ["red", "blue"]
    assert answer["answerUrl"] == "/questions/t_1.1.0.1/answer" == item_links(QUESTION)["answerUrl"]
    assert not {"queued", "decision", "expiresAt", "tool"} & set(answer)
    documented: TypeAdapter[TurnPending] = TypeAdapter(TurnPending)
    assert documented.validate_python(answer).to_dict() == answer


def test_a_turn_that_goes_on() -> None:
    answer = sent(turn_running(state="queued", note="no worker is there", status_url=STATUS, **PLACE))
    assert (answer["pending"], answer["type"], answer["state"]) == (True, "running", "queued")
    assert TurnRunning.model_validate(answer).to_dict() == answer


@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        (NotFound("no such approval"), "not-found", 404),
        (MalformedRequest("not JSON"), "malformed-request", 400),
        (InvalidRequest("'message' is missing"), "invalid-request", 422),
        (AlreadyDecided("denied already", decision=DECISION), "already-decided", 409),
    ],
)
def test_a_problem_document_says_it_twice_and_keeps_its_extras(error: CallerError, kind: str, status: int) -> None:
    document = sent(problem_of(error))
    assert document["type"] == f"https://loopengine.dev/problems/{kind}"
    assert document["status"] == status
    assert document["detail"] == document["error"] == str(error)
    assert document.get("decision") == error.extra.get("decision")
    assert Problem.model_validate(document).to_dict() == document


def test_extras_never_replace_a_standard_member() -> None:
    document = problem(kind="x", title="X", status=503, detail="d", extra={"status": 200, "turnId": "t_1"})
    assert (document["status"], document["turnId"]) == (503, "t_1")
