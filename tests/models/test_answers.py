"""What a complete stream becomes, on both wires."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.models.contract import Usage
from protocol.errors import ModelCut, ModelTooLong
from tests.fake_provider import Entry, FakeProvider, calls, text
from tests.models.asking import Wire, asking, model_on, result, use, user

WIRES: list[Wire] = ["anthropic", "openai"]
both_wires = pytest.mark.parametrize("wire", WIRES)


@both_wires
async def test_text_is_shown_in_pieces_and_answered_whole(wire: Wire) -> None:
    shown: list[str] = []
    with FakeProvider([text("Good morning 😀")]) as fake:
        answer = await model_on(fake, wire).answer(asking(), shown.append)
    assert answer.blocks == [{"type": "text", "text": "Good morning 😀"}]
    assert len(shown) > 1
    assert "".join(shown) == "Good morning 😀"
    assert (answer.stop, answer.provider, answer.model) == ("end_turn", wire, "fake-1")


@both_wires
async def test_calls_keep_their_order_ids_and_arguments(wire: Wire) -> None:
    made = calls(("a", "ledger_add", {"key": "k", "n": [1, {"x": None}]}), ("b", "read_note", {}), say="Both.")
    with FakeProvider([made]) as fake:
        answer = await model_on(fake, wire).answer(asking())
    assert answer.blocks == made["blocks"]
    assert answer.stop == "tool_use"


@both_wires
async def test_usage_counts_all_input_and_what_of_it_was_cached(wire: Wire) -> None:
    entry = text("x")
    if wire == "anthropic":
        entry["usage"] = {"input_tokens": 7, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20}
    else:
        entry["usage"] = {"input_tokens": 127, "cache_read_input_tokens": 100}
    entry["usage"]["output_tokens"] = 9
    with FakeProvider([entry]) as fake:
        answer = await model_on(fake, wire).answer(asking())
    assert answer.usage == Usage(input_tokens=127, output_tokens=9, cached_tokens=100)


@both_wires
@pytest.mark.parametrize(
    ("raw", "arguments", "input_raw"),
    [
        ("", {}, None),
        ("  \n", {}, None),
        ('{"key":"a"}', {"key": "a"}, None),
        ('{"key":"\\ud99c!"}', {"key": "\ufffd!"}, None),
        ('{"key":"\\ud83d\\ude00"}', {"key": "😀"}, None),
        ("null", {}, "null"),
        ("[]", {}, "[]"),
        ('"key"', {}, '"key"'),
        ('{"key": "b"', {}, '{"key": "b"'),
        ("{'key':'c'}", {}, "{'key':'c'}"),
        ('{"key":"d",}', {}, '{"key":"d",}'),
        ('{"key":"safe","key":"wipe"}', {}, '{"key":"safe","key":"wipe"}'),
        ('{"n":NaN}', {}, '{"n":NaN}'),
        ('{"n":1e999}', {}, '{"n":1e999}'),
        ("[" * 100_000, {}, "[" * 100_000),
    ],
    ids=lambda value: repr(value)[:40],
)
async def test_arguments_that_are_no_object_come_with_the_text_as_received(
    wire: Wire, raw: str, arguments: dict[str, Any], input_raw: str | None
) -> None:
    block = {"type": "tool_use", "id": "a", "name": "ledger_add", "input_raw": raw}
    with FakeProvider([{"blocks": [block], "stop": "tool_use"}]) as fake:
        answer = await model_on(fake, wire).answer(asking())
    assert answer.blocks[0]["input"] == arguments
    assert answer.blocks[0].get("input_raw") == input_raw


@both_wires
async def test_a_call_cut_by_the_output_limit_has_no_arguments(wire: Wire) -> None:
    block = {"type": "tool_use", "id": "a", "name": "ledger_add", "input_raw": '{"key":"m1","amount":100'}
    with FakeProvider([{"blocks": [block], "stop": "max_tokens"}]) as fake:
        answer = await model_on(fake, wire).answer(asking())
    assert answer.stop == "max_tokens"
    assert answer.blocks[0]["input"] == {}
    assert answer.blocks[0]["input_raw"] == '{"key":"m1","amount":100'


@pytest.mark.parametrize("given", [None, [], "key"])
async def test_arguments_given_whole_at_the_start_of_a_block_must_be_an_object_too(given: object) -> None:
    start = {"type": "tool_use", "id": "a", "name": "ledger_add", "input": given}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    with FakeProvider([{"raw_sse": [_frame(event) for event in events]}]) as fake:
        answer = await model_on(fake, "anthropic").answer(asking())
    assert answer.blocks[0]["input_raw"] == json.dumps(given)


async def test_thinking_comes_back_and_goes_out_byte_for_byte() -> None:
    thinking = [
        {"type": "thinking", "thinking": "e\u0301 \u202e\ufeff so…  \n", "signature": "c2ln+/=="},
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
        {"type": "thinking", "thinking": "", "signature": "empty"},
    ]
    entry: Entry = {"blocks": [*thinking, use("a", key="k")], "stop": "tool_use"}
    with FakeProvider([entry, text("done")]) as fake:
        model = model_on(fake, "anthropic")
        answer = await model.answer(asking())
        assert answer.blocks[:3] == thinking
        written = {"role": "assistant", "content": answer.blocks, "provider": "anthropic"}
        await model.answer(asking(user("hello"), written, user(result("a"))))
        assert fake.refusals == []


@both_wires
@pytest.mark.parametrize(
    ("entry", "stop"),
    [
        (calls(("a", "ledger_add", {})) | {"stop": "end_turn"}, "tool_use"),
        (calls(("a", "ledger_add", {})) | {"stop": None}, "tool_use"),
        (calls(("a", "ledger_add", {})) | {"stop": "unknown"}, "tool_use"),
        (text("no call") | {"stop": "tool_use"}, "end_turn"),
        ({"blocks": [], "stop": "end_turn"}, "end_turn"),
        ({"blocks": [], "stop": None}, "other"),
        (text("I will not") | {"stop": "refusal"}, "refusal"),
        (text("and so o") | {"stop": "max_tokens"}, "max_tokens"),
    ],
)
async def test_the_content_is_believed_rather_than_the_stop_reason(wire: Wire, entry: Entry, stop: str) -> None:
    with FakeProvider([entry]) as fake:
        assert (await model_on(fake, wire).answer(asking())).stop == stop


@both_wires
@pytest.mark.parametrize(
    "entry",
    [
        text("half a sen") | {"stop": None},
        {"blocks": [{"type": "tool_use", "id": "a", "name": "t", "input_raw": '{"key"'}], "stop": None},
    ],
)
async def test_an_end_mark_without_a_stop_reason_does_not_make_a_cut_answer_whole(wire: Wire, entry: Entry) -> None:
    with FakeProvider([entry]) as fake, pytest.raises(ModelCut):
        await model_on(fake, wire).answer(asking())


async def test_a_full_context_window_is_too_long_and_not_an_answer() -> None:
    entry = text("and then") | {"stop": "model_context_window_exceeded"}
    with FakeProvider([entry]) as fake, pytest.raises(ModelTooLong):
        await model_on(fake, "anthropic").answer(asking())


async def test_a_pause_is_handed_on() -> None:
    with FakeProvider([text("wait") | {"stop": "pause_turn"}]) as fake:
        assert (await model_on(fake, "anthropic").answer(asking())).stop == "pause"


@pytest.mark.parametrize("message", [{"choices": []}, {"content": None}])
async def test_a_completion_without_content_is_an_empty_answer(message: dict[str, Any]) -> None:
    with FakeProvider([{"openai": message, "finish": "stop"}]) as fake:
        assert (await model_on(fake, "openai").answer(asking())).blocks == []


@pytest.mark.parametrize(
    ("deltas", "found"),
    [
        pytest.param(
            [
                {"index": 0, "id": "a", "function": {"name": "t", "arguments": None}},
                {"index": 0, "id": None, "function": {"name": None, "arguments": '{"x":1}'}},
            ],
            [("a", "t", {"x": 1})],
            id="null arguments, id and name",
        ),
        pytest.param(
            [
                {"id": "a", "function": {"name": "t", "arguments": "{}"}},
                {"id": "b", "function": {"name": "u", "arguments": "{}"}},
            ],
            [("a", "t", {}), ("b", "u", {})],
            id="no index",
        ),
        pytest.param(
            [
                {"index": 0, "id": "a", "function": {"name": "t", "arguments": "{}"}},
                {"index": 0, "id": "b", "function": {"name": "u", "arguments": "{}"}},
            ],
            [("a", "t", {}), ("b", "u", {})],
            id="every call numbered 0",
        ),
        pytest.param(
            [
                {"index": 1, "id": "b", "function": {"name": "u", "arguments": "{"}},
                {"index": 0, "id": "a", "function": {"name": "t", "arguments": "{"}},
                {"index": 1, "function": {"arguments": '"y":2}'}},
                {"index": 0, "function": {"arguments": "}"}},
            ],
            [("b", "u", {"y": 2}), ("a", "t", {})],
            id="interleaved",
        ),
    ],
)
async def test_calls_of_careless_servers_are_put_together(
    deltas: list[dict[str, Any]], found: list[tuple[str, str, dict[str, Any]]]
) -> None:
    chunks = [{"choices": [{"index": 0, "delta": {"content": None, "tool_calls": [delta]}}]} for delta in deltas]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    frames = [f"data: {json.dumps(chunk)}\n\n" for chunk in [*chunks, end]]
    with FakeProvider([{"raw_sse": [*frames, "data: [DONE]\n\n"]}]) as fake:
        answer = await model_on(fake, "openai").answer(asking())
    assert [(block["id"], block["name"], block["input"]) for block in answer.blocks] == found


async def test_reasoning_of_compatible_servers_is_thinking_and_not_text() -> None:
    shown: list[str] = []
    with FakeProvider([{"openai": {"reasoning_content": "hm", "content": "yes"}, "finish": "stop"}]) as fake:
        answer = await model_on(fake, "openai").answer(asking(), shown.append)
    assert answer.blocks == [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "yes"}]
    assert "".join(shown) == "yes"


@both_wires
async def test_halves_of_surrogate_pairs_are_joined_or_replaced(wire: Wire) -> None:
    pieces = ["a\ud83d", "\ude00b", "\udc88c"]
    shown: list[str] = []
    with FakeProvider([{"raw_sse": _text_frames(wire, pieces)}]) as fake:
        answer = await model_on(fake, wire).answer(asking(), shown.append)
    assert answer.blocks == [{"type": "text", "text": "a😀b\ufffdc"}]
    assert "".join(shown) == "a😀b\ufffdc"


def _text_frames(wire: Wire, pieces: list[str]) -> list[str]:
    if wire == "openai":
        chunks: list[dict[str, Any]] = [{"choices": [{"delta": {"content": piece}}]} for piece in pieces]
        chunks.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
        return [_frame(chunk) for chunk in chunks]
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    events: list[dict[str, Any]] = [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *[{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas],
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ]
    return [_frame(event) for event in events]


def _frame(event: dict[str, Any]) -> str:
    return f"data: {json.dumps(event)}\n\n"
