"""A stream that breaks in the middle is never an answer, and the next try is a normal one (MODEL-08)."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from protocol.errors import ModelBusy, ModelCut, ModelError, ModelRefused, ModelTooLong
from tests.fake_provider import Entry, FakeProvider, calls, text
from tests.models.asking import Wire, asking, model_on


def _frames(*events: dict[str, Any]) -> list[str]:
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]


def _chunks(*choices: dict[str, Any]) -> list[str]:
    return [f"data: {json.dumps({'choices': [choice]})}\n\n" for choice in choices]


def _overloaded(kind: str) -> list[str]:
    return _frames({"type": "error", "error": {"type": kind, "message": "Overloaded"}})


START = _frames({"type": "message_start", "message": {"model": "fake", "usage": {"input_tokens": 1}}})
HALF_CALL = START + _frames(
    {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "tool_use", "id": "toolu_8", "name": "ledger_add", "input": {}},
    },
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": '{"key":"m8","amount": 1'},
    },
)
TEXT = START + _frames(
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "I will now"}},
)
STOPPED = _frames({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 3}})
HALF_CHAT_CALL = _chunks(
    {"delta": {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "t", "arguments": '{"key":'}}]}}
)
GARBAGE: Entry = {"raw_sse": [{"b64": "AP/+gIENCg0K"}, "data: {not json\n\n"]}

GOOD = calls(("a", "ledger_add", {"key": "m8", "amount": 1000}))

BROKEN: list[tuple[str, Wire, Entry, type[ModelError]]] = [
    ("a: half a call, then closed", "anthropic", {"raw_sse": HALF_CALL}, ModelCut),
    ("a: half a call, then reset", "anthropic", {"raw_sse": HALF_CALL, "then": "reset"}, ModelCut),
    ("a: stop reason, but no message_stop", "anthropic", {"raw_sse": HALF_CALL + STOPPED}, ModelCut),
    ("b: overloaded", "anthropic", {"raw_sse": HALF_CALL + _overloaded("overloaded_error")}, ModelBusy),
    ("b: api_error", "anthropic", {"raw_sse": HALF_CALL + _overloaded("api_error")}, ModelBusy),
    ("b: unknown error", "anthropic", {"raw_sse": HALF_CALL + _overloaded("not_seen_before")}, ModelRefused),
    ("c: text, then closed", "anthropic", {"raw_sse": TEXT}, ModelCut),
    ("c: nothing at all", "anthropic", {"raw_sse": []}, ModelCut),
    ("e: half a chat call", "openai", {"raw_sse": HALF_CHAT_CALL}, ModelCut),
    ("e: and reset", "openai", {"raw_sse": HALF_CHAT_CALL, "then": "reset"}, ModelCut),
    ("e: and an end mark", "openai", {"raw_sse": [*HALF_CHAT_CALL, "data: [DONE]\n\n"]}, ModelCut),
    ("e: text, then closed", "openai", {"raw_sse": _chunks({"delta": {"content": "I will"}})}, ModelCut),
    ("f: garbage", "anthropic", GARBAGE, ModelCut),
    ("f: garbage", "openai", GARBAGE, ModelCut),
    ("f: not an object", "openai", {"raw_sse": ["data: [1]\n\n"]}, ModelCut),
    ("f: wrong shapes", "anthropic", {"raw_sse": ['data: {"type":"content_block_delta","index":7}\n\n']}, ModelCut),
    ("f: wrong shapes", "openai", {"raw_sse": ['data: {"choices":[{"delta":{"content":5}}]}\n\n']}, ModelCut),
    ("f: a web page", "anthropic", {"raw_sse": ["<html>"], "content_type": "text/html"}, ModelCut),
]


@pytest.mark.parametrize(("wire", "entry", "kind"), [b[1:] for b in BROKEN], ids=[f"{b[1]} {b[0]}" for b in BROKEN])
async def test_a_broken_stream_is_no_answer_and_the_next_try_is(
    wire: Wire, entry: Entry, kind: type[ModelError]
) -> None:
    with FakeProvider([entry, GOOD]) as fake:
        model = model_on(fake, wire)
        with pytest.raises(kind):
            await model.answer(asking())
        assert (await model.answer(asking())).blocks == GOOD["blocks"]


@pytest.mark.parametrize(
    ("wire", "frames"), [("anthropic", TEXT), ("openai", _chunks({"delta": {"content": "I will now"}}))]
)
async def test_a_stream_that_falls_silent_is_cut_by_the_idle_limit(wire: Wire, frames: list[str]) -> None:
    shown: list[str] = []
    with FakeProvider([{"raw_sse": frames, "then": "hang"}, GOOD]) as fake:
        model = model_on(fake, wire, idle_s=0.3)
        began = time.monotonic()
        with pytest.raises(ModelCut, match=r"said nothing for 0\.3 s"):
            await model.answer(asking(), shown.append)
        assert time.monotonic() - began < 5
        assert shown == ["I will now"]
        assert (await model.answer(asking())).blocks == GOOD["blocks"]


async def test_a_long_answer_may_take_longer_than_the_idle_limit() -> None:
    """Given 20 pieces with pauses that add up to more than the limit, when all come, then it is an answer."""
    pause = {"pause": 0.05}
    pieces = [piece for number in range(20) for piece in (*_chunks({"delta": {"content": str(number)}}), pause)]
    with FakeProvider([{"raw_sse": [*pieces, *_chunks({"delta": {}, "finish_reason": "stop"})]}]) as fake:
        answer = await model_on(fake, "openai", idle_s=0.5).answer(asking())
    assert answer.blocks[0]["text"] == "".join(map(str, range(20)))


@pytest.mark.parametrize("sign", [*_frames({"type": "ping"}), ": keep-alive\n\n"])
async def test_signs_of_life_alone_do_not_hold_a_turn_for_ever(sign: str) -> None:
    pieces: list[Any] = [piece for _ in range(200) for piece in (sign, {"pause": 0.05})]
    with FakeProvider([{"raw_sse": START + pieces}]) as fake:
        began = time.monotonic()
        with pytest.raises(ModelCut):
            await model_on(fake, "anthropic", idle_s=0.1).answer(asking())
        assert 0.9 < time.monotonic() - began < 9


async def test_a_first_chunk_with_usage_and_no_choices_is_normal() -> None:
    first = f"data: {json.dumps({'choices': [], 'usage': {'prompt_tokens': 3}})}\n\n"
    rest = _chunks({"delta": {"content": "Hi"}}, {"delta": {}, "finish_reason": "stop"})
    with FakeProvider([{"raw_sse": [first, *rest, "data: [DONE]\n\n"]}]) as fake:
        answer = await model_on(fake, "openai").answer(asking())
    assert answer.blocks == [{"type": "text", "text": "Hi"}]


async def test_a_clean_end_behind_the_finish_reason_needs_no_end_mark() -> None:
    rest = _chunks({"delta": {"content": "Hi"}}, {"delta": {}, "finish_reason": "stop"})
    with FakeProvider([{"raw_sse": rest}]) as fake:
        assert (await model_on(fake, "openai").answer(asking())).stop == "end_turn"


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
@pytest.mark.parametrize("then", ["hang", "reset"])
async def test_what_happens_behind_the_end_mark_does_not_matter(wire: Wire, then: str) -> None:
    frames = (
        TEXT + STOPPED + _frames({"type": "message_stop"})
        if wire == "anthropic"
        else [*_chunks({"delta": {"content": "I will now"}, "finish_reason": "stop"}), "data: [DONE]\n\n"]
    )
    with FakeProvider([{"raw_sse": frames, "then": then}]) as fake:
        answer = await model_on(fake, wire, idle_s=60).answer(asking())
    assert answer.blocks == [{"type": "text", "text": "I will now"}]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "slow down", "type": "rate_limit_exceeded"}, ModelBusy),
        ({"message": "bad gateway", "code": 502}, ModelBusy),
        ({"message": "too much", "code": "context_length_exceeded"}, ModelTooLong),
        ({"message": "no", "type": "invalid_request_error"}, ModelRefused),
        ({"message": "upstream went away"}, ModelCut),
        ("upstream went away", ModelCut),
    ],
)
async def test_an_error_inside_a_chat_stream_is_judged_by_its_type(error: object, kind: type[ModelError]) -> None:
    with FakeProvider([{"raw_sse": [f"data: {json.dumps({'error': error})}\n\n"]}]) as fake, pytest.raises(kind):
        await model_on(fake, "openai").answer(asking())


async def test_a_cancelled_call_ends_at_once_and_harms_no_other() -> None:
    with FakeProvider([{"raw_sse": TEXT, "then": "hang"}, GOOD]) as fake:
        model = model_on(fake, "anthropic", idle_s=60)
        shown = asyncio.Event()
        running = asyncio.create_task(model.answer(asking(), lambda _: shown.set()))
        await shown.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await model.answer(asking())).blocks == GOOD["blocks"]


async def test_an_error_of_the_listener_is_not_taken_for_the_streams() -> None:
    def broken(_: str) -> None:
        raise TypeError("a mistake of ours")

    with FakeProvider([text("Hi")]) as fake, pytest.raises(TypeError, match="a mistake of ours"):
        await model_on(fake, "anthropic").answer(asking(), broken)
