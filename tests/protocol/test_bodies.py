"""Request bodies: strict, closed, and refused with words that name the field."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.bodies import AnswerBody, ApproveBody, DecideBody, SendMessage, read_body
from protocol.errors import InvalidRequest, MalformedRequest
from protocol.json_text import dumps
from protocol.shapes import Wire


def test_a_message_alone_is_enough() -> None:
    body = read_body(SendMessage, b'{"message":" hi "}')
    assert (body.message, body.session_id, body.context, body.on_busy) == (" hi ", None, None, "queue")


def test_all_fields_are_read_by_their_wire_names() -> None:
    body = read_body(
        SendMessage,
        '{"message":"hi","sessionId":"caf\u00e9/1","context":{"a":null},"onBusy":"reject"}'.encode(),
    )
    assert (body.session_id, body.context, body.on_busy) == ("caf\u00e9/1", {"a": None}, "reject")


REFUSED: list[tuple[type[Wire], Any, str]] = [
    (SendMessage, {}, "'message' is missing"),
    (SendMessage, {"message": ""}, "'message': must not be empty or blank"),
    (SendMessage, {"message": " \n\u3000"}, "'message': must not be empty or blank"),
    (SendMessage, {"message": 5}, "'message': input should be a valid string"),
    (SendMessage, {"message": None}, "'message': input should be a valid string"),
    (SendMessage, {"message": "x", "sessionId": ""}, "'sessionId': string should have at least 1"),
    (SendMessage, {"message": "x", "sessionId": "s" * 257}, "'sessionId': string should have at most 256"),
    (SendMessage, {"message": "x", "sessionId": "a\nb"}, "'sessionId': must not hold control characters, found U+000A"),
    (SendMessage, {"message": "x", "sessionId": "a\u0085"}, "found U+0085 at position 1"),
    (SendMessage, {"message": "x", "sessionId": None}, "'sessionId': null is not a value here"),
    (SendMessage, {"message": "x", "sessionId": 7}, "'sessionId'"),
    (SendMessage, {"message": "x", "context": []}, "'context'"),
    (SendMessage, {"message": "x", "onBusy": "QUEUE"}, "'onBusy': input should be 'queue', 'reject' or 'interrupt'"),
    (
        SendMessage,
        {"message": "x", "session_id": "s"},
        "'session_id' is not a field of this request (known: message, sessionId, context, onBusy)",
    ),
    (SendMessage, [], "the body must be a JSON object"),
    (SendMessage, "hi", "the body must be a JSON object"),
    (ApproveBody, {"reason": "fine"}, "'reason' is not a field of this request (known: digest, by)"),
    (ApproveBody, {"decision": "allow"}, "'decision' is not a field"),
    (ApproveBody, {"digest": None}, "'digest': null is not a value here"),
    (ApproveBody, {"digest": ""}, "'digest'"),
    (ApproveBody, {"by": " "}, "'by': must not be empty or blank"),
    (ApproveBody, {"by": "a\x1bb"}, "'by': must not hold control characters"),
    (DecideBody, {"reason": 1}, "'reason'"),
    (DecideBody, {"reason": "x" * 4001}, "'reason': string should have at most 4000"),
    (AnswerBody, {}, "'answer' is missing"),
    (AnswerBody, {"answer": None}, "'answer'"),
    (AnswerBody, {"answer": ["red"]}, "'answer'"),
    (AnswerBody, {"answer": ""}, "'answer'"),
    (AnswerBody, {"answer": "  "}, "'answer': must not be empty or blank"),
    (AnswerBody, {"answer": "x" * 20_001}, "'answer': string should have at most 20000"),
    (AnswerBody, {"answer": "a\x07"}, "found U+0007 at position 1"),
]


@pytest.mark.parametrize(("model", "value", "said"), REFUSED, ids=range(len(REFUSED)))
def test_a_bad_body_is_refused_by_field_and_fault(model: type[Wire], value: Any, said: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_body(model, dumps(value))
    assert said in str(refused.value)
    assert refused.value.status == 422


def test_a_refusal_never_repeats_the_body() -> None:
    many = {f"secret{n}" * 50: "hush" for n in range(100)}
    with pytest.raises(InvalidRequest) as refused:
        read_body(SendMessage, dumps({"message": 5, **many}))
    assert "hush" not in str(refused.value)
    assert str(refused.value).endswith("and 96 more")
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize("data", [b"", b"message=hi", b'{"message":"a","message":"b"}', b'{"message":"\\ud800"}'])
def test_a_body_that_is_not_proper_json_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedRequest):
        read_body(SendMessage, data)


def test_only_where_it_is_said_may_a_body_be_empty() -> None:
    assert read_body(ApproveBody, b" ", may_be_empty=True) == ApproveBody()
    assert (
        read_body(DecideBody, b'{"digest":"d","reason":"no\\nway","by":"alice"}', may_be_empty=True).reason == "no\nway"
    )
    with pytest.raises(MalformedRequest):
        read_body(AnswerBody, b"")


def test_an_answer_is_kept_exactly() -> None:
    assert read_body(AnswerBody, dumps({"answer": " red\r\n\tor blue "})).answer == " red\r\n\tor blue "
