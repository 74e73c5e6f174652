"""MODEL-08: the stream breaks in the middle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cases.client import types_of
from tests.cases.conversations import Body, requests_about
from tests.cases.ledger import Wire, asks, says, use
from tests.cases.product import Product, case
from tests.fake_provider.script import Entry

RULES = ["{tool: ledger_add, decision: allow}"]
IDLE_S = 2
TRIES = 3
"""Of a stream that breaks, before the turn ends with an error (engine/plan.py)."""


def event(**fields: Any) -> str:
    return f"event: {fields['type']}\ndata: {json.dumps(fields)}\n\n"


def chunk(**fields: Any) -> str:
    return f"data: {json.dumps(fields)}\n\n"


# The frames of model08.txt. "the real text would have gone on `000, "key":"m8"}`"
START: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "fake",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
CALL = {"type": "tool_use", "id": "toolu_8", "name": "ledger_add", "input": {}}
MODEL08 = [
    event(type="message_start", message=START),
    event(type="content_block_start", index=0, content_block=CALL),
    event(
        type="content_block_delta",
        index=0,
        delta={"type": "input_json_delta", "partial_json": '{"key":"m8","amount": 1'},
    ),
]
OVERLOADED = event(type="error", error={"type": "overloaded_error", "message": "Overloaded"})
TEXT = [
    MODEL08[0],
    event(type="content_block_start", index=0, content_block={"type": "text", "text": ""}),
    event(type="content_block_delta", index=0, delta={"type": "text_delta", "text": "I will now"}),
]
GARBAGE: Entry = {"raw_sse": [{"b64": "AP/+gIENCg0K"}, "data: {not json\n\n"]}
HALF_FUNCTION = {"name": "ledger_add", "arguments": '{"key":"m8","amount": 1'}
HALF_CALL = {"index": 0, "id": "call_8", "type": "function", "function": HALF_FUNCTION}
CHAT_TEXT = chunk(choices=[{"index": 0, "delta": {"role": "assistant", "content": "I will now"}}])

BROKEN: dict[Wire, dict[str, Entry]] = {
    "anthropic": {
        "a": {"raw_sse": MODEL08},
        "b": {"raw_sse": [*MODEL08, OVERLOADED]},
        "c": {"raw_sse": TEXT},
        "d": {"raw_sse": TEXT, "then": "hang"},
        "f": GARBAGE,
    },
    "openai": {
        "c": {"raw_sse": [CHAT_TEXT]},
        "d": {"raw_sse": [CHAT_TEXT], "then": "hang"},
        "e": {"raw_sse": [chunk(choices=[{"index": 0, "delta": {"tool_calls": [HALF_CALL]}}])]},
        "f": GARBAGE,
    },
}
NORMAL: Entry = {
    "raw_sse": [
        chunk(choices=[], usage={"prompt_tokens": 3, "completion_tokens": 0, "total_tokens": 3}),
        chunk(choices=[{"index": 0, "delta": {"content": "All is normal."}}]),
        chunk(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}]),
        "data: [DONE]\n\n",
    ]
}


def good(way: str) -> Entry:
    call = use(f"toolu_{way}", "ledger_add", key=f"m8{way}", amount=1000)
    return asks({"type": "text", "text": "I will now add it."}, call)


def history_of(body: Body) -> list[dict[str, Any]]:
    """What a request says about the user's message: the answers so far, without system text and results."""
    return [message for message in body["messages"] if message["role"] == "assistant"]


@pytest.mark.parametrize("wire", BROKEN)
async def test_a_broken_stream_runs_nothing_and_is_tried_again(redis_url: str, tmp_path: Path, wire: Wire) -> None:
    scripts: dict[str, list[Entry | list[Entry]]] = {
        # "The second script entry is a good answer."
        f"^way {way}$": [[broken, good(way)], says(f"Added in way {way}.")]
        for way, broken in BROKEN[wire].items()
    }
    scripts["^never$"] = [BROKEN[wire]["c"]]
    scripts["^normal$"] = [NORMAL]
    env = {"LOOPENGINE_MODEL_IDLE_SECONDS": str(IDLE_S)}
    async with case(redis_url, tmp_path, scripts, wire=wire, rules=RULES, env=env) as product:
        accepted = {
            way: (await product.client.say(f"s-{way}", f"way {way}", wait_s=0)).json()["turnId"] for way in BROKEN[wire]
        }
        for way, turn_id in accepted.items():
            turn = await product.client.settled(turn_id, "done")
            assert (turn["text"], turn.get("stopReason")) == (f"Added in way {way}.", None), way
            await check(product, way, turn)

        # "No tool runs from a stream without its proper end: the ledger never shows amount 1 (the full value was
        # 1000)."
        begun = sorted(line.split(" pid=")[0] for line in product.ledger.lines if line.startswith("begin"))
        assert begun == sorted(f"begin m8{way} 1000" for way in BROKEN[wire])

        # "The call is tried again a bounded number of times;"
        failed = (await product.client.say("s-never", "never", wait_s=60)).json()
        assert (failed["stopReason"], types_of(failed["events"])[-2:]) == ("error", ["error", "done"])
        assert len(requests_about(product.fake.requests, "never")) == TRIES

        if wire == "openai":
            # (g) "a first chunk with empty choices and usage" ... "(g) is a normal stream."
            normal = (await product.client.say("s-normal", "normal", wait_s=60)).json()
            assert (normal["text"], normal.get("stopReason")) == ("All is normal.", None)
            assert len(requests_about(product.fake.requests, "normal")) == 1


async def check(product: Product, way: str, turn: dict[str, Any]) -> None:
    requests = requests_about(product.fake.requests, f"way {way}")
    # One broken call, and the same asked again; then the call with the tool's result. "(d) by an idle limit, not the
    # total one": there is no other limit that ends a stream which hangs, and the case waits no longer than a turn.
    assert len(requests) == 3
    assert requests[0]["messages"] == requests[1]["messages"]

    # "Text already shown is either kept as is and followed by an event that says the attempt was dropped, or not shown
    # until safe; a client that builds the text from events ends with the final text once." Nothing is shown until safe.
    shown = [event["text"] for event in turn["events"] if event["type"] in ("assistant:text", "loop:done")]
    assert shown == ["I will now add it.", f"Added in way {way}."]
    frames = await product.client.tail(f"s-{way}")
    assert [json.loads(frame.data) for frame in frames] == turn["events"]

    # "History has only the good answer."
    messages = (await product.client.show(f"s-{way}"))["messages"]
    assert [message["text"] for message in messages] == [f"way {way}", *shown]
    assert [call["args"] for call in messages[1]["calls"]] == [{"key": f"m8{way}", "amount": 1000}]
    assert len(history_of(requests[-1])) == 1
    assert "toolu_8" not in json.dumps(requests[-1])
    assert "call_8" not in json.dumps(requests[-1])
