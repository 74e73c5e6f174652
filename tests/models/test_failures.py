"""Errors before a stream begins: which of the four words they become, and what they say."""

from __future__ import annotations

import socket
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from engine.models.failures import retry_after, tidy
from protocol.errors import ModelBusy, ModelError, ModelRefused, ModelTooLong
from tests.fake_provider import Entry, FakeProvider, refusal
from tests.models.asking import Wire, asking, model_on, user

ANSWERS: list[tuple[Entry, type[ModelError]]] = [
    (refusal(429, "rate_limit_error", "slow down"), ModelBusy),
    (refusal(529, "overloaded_error", "Overloaded"), ModelBusy),
    (refusal(500, "api_error", "internal"), ModelBusy),
    (refusal(503, "x", "unavailable"), ModelBusy),
    (refusal(408, "x", "timeout"), ModelBusy),
    (refusal(409, "x", "conflict"), ModelBusy),
    ({"status": 502, "body": "<html>Bad gateway</html>"}, ModelBusy),
    (refusal(429, "insufficient_quota", "no money left"), ModelRefused),
    (refusal(400, "invalid_request_error", "prompt is too long: 212345 tokens > 200000 maximum"), ModelTooLong),
    (refusal(400, "invalid_request_error", "This model's maximum context length is 8192 tokens"), ModelTooLong),
    (refusal(413, "request_too_large", "too large"), ModelTooLong),
    (refusal(400, "invalid_request_error", "messages: at least one"), ModelRefused),
    (refusal(404, "not_found_error", "model: fake-1"), ModelRefused),
    (refusal(401, "authentication_error", "Incorrect API key provided: sk-abc***xyz"), ModelRefused),
    (refusal(403, "permission_error", "no"), ModelRefused),
    (refusal(422, "x", "unprocessable"), ModelRefused),
]


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
@pytest.mark.parametrize(("entry", "kind"), ANSWERS, ids=[f"{e['status']} {k.__name__}" for e, k in ANSWERS])
async def test_a_status_becomes_its_error_without_a_hidden_retry(
    wire: Wire, entry: Entry, kind: type[ModelError]
) -> None:
    with FakeProvider([entry]) as fake:
        with pytest.raises(ModelError) as caught:
            await model_on(fake, wire).answer(asking())
        assert type(caught.value) is kind
        assert len(fake.requests) == 1
    assert "sk-" not in str(caught.value)


@pytest.mark.parametrize(("wire", "variable"), [("anthropic", "ANTHROPIC_API_KEY"), ("openai", "OPENAI_API_KEY")])
async def test_a_refused_key_is_named_by_its_variable(wire: Wire, variable: str) -> None:
    entry = refusal(401, "authentication_error", "bad key")
    with FakeProvider([entry]) as fake, pytest.raises(ModelRefused, match=variable):
        await model_on(fake, wire).answer(asking())


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
async def test_a_long_retry_after_is_handed_on_and_not_slept(wire: Wire) -> None:
    with FakeProvider([refusal(529, "overloaded_error", "Overloaded", retry_after="600")]) as fake:
        began = time.monotonic()
        with pytest.raises(ModelBusy) as caught:
            await model_on(fake, wire).answer(asking())
        assert time.monotonic() - began < 10
    assert caught.value.retry_after_s == 600


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
async def test_a_provider_that_cannot_be_reached_is_busy(wire: Wire) -> None:
    with FakeProvider() as fake, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound, but nobody listens
        fake.url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        with pytest.raises(ModelBusy, match="cannot be reached"):
            await model_on(fake, wire).answer(asking())


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
async def test_a_provider_that_does_not_answer_at_all_is_busy_after_the_idle_limit(wire: Wire) -> None:
    with FakeProvider([{"sleep": 60, "blocks": [], "stop": "end_turn"}]) as fake, pytest.raises(ModelBusy):
        await model_on(fake, wire, idle_s=0.3).answer(asking())


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
async def test_a_request_that_cannot_be_encoded_is_refused_and_not_a_crash(wire: Wire) -> None:
    with FakeProvider() as fake:
        with pytest.raises(ModelRefused, match="could not be made"):
            await model_on(fake, wire).answer(asking(user("half \ud83d")))
        assert fake.requests == []


NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "30"}, 30),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": format_datetime(NOW + timedelta(seconds=90), usegmt=True)}, 90),
        ({"retry-after": format_datetime(NOW - timedelta(seconds=90), usegmt=True)}, 0),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


@pytest.mark.parametrize("key", ["sk-ant-api03-abcDEF_123", "sk-proj-a1b2c3", "Bearer eyJabc.def", "sk-abc***xyz"])
def test_nothing_that_looks_like_a_key_gets_into_a_message(key: str) -> None:
    assert key not in tidy(f"refused {key} for this")


def test_a_message_is_one_short_line() -> None:
    tidied = tidy("a\n\n" * 1000)
    assert "\n" not in tidied
    assert len(tidied) == 300
