"""Every valid neutral conversation is accepted by the strict fake, on both wires, whoever wrote its answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from engine.models import anthropic, openai
from engine.models.blocks import THINKING
from engine.models.contract import Block, Message
from tests.fake_provider import FakeProvider, Rules, text
from tests.fake_provider.strict_json import strict_loads
from tests.models.asking import Wire, asking, model_on, result, said, use, user

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(str.strip)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
names = st.from_regex(r"[a-zA-Z0-9_-]{1,64}", fullmatch=True)
thoughts = st.builds(lambda t, s: {"type": "thinking", "thinking": t, "signature": s}, st.text(max_size=9), words)
redacted = st.builds(lambda data: {"type": "redacted_thinking", "data": data}, words)


@st.composite
def answers(draw: st.DrawFn, number: int) -> Message:
    blocks: list[Block] = draw(st.lists(thoughts | redacted, max_size=2))
    blocks = [*blocks, *map(said, draw(st.lists(words, max_size=2)))]
    for position in range(draw(st.integers(0, 3))):
        call = use(f"call_{number}_{position}", draw(names))
        blocks.append(call | {"input": draw(st.dictionaries(words, values, max_size=3))})
    if all(block["type"] in THINKING for block in blocks):
        blocks.append(said("."))
    message: Message = {"role": "assistant", "content": blocks}
    writer = draw(st.sampled_from([None, "anthropic", "openai", "scripted"]))
    return message if writer is None else message | {"provider": writer}


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    messages: list[Message] = [user(draw(words))]
    for number in range(draw(st.integers(0, 4))):
        answer = draw(answers(number))
        ids = [block["id"] for block in answer["content"] if block["type"] == "tool_use"]
        results = [result(id_, draw(words), draw(st.booleans())) for id_ in ids]
        texts = draw(st.lists(words, min_size=0 if ids else 1, max_size=2))
        messages += [answer, user(*results, *texts)]
    return messages


@given(conversations())
@settings(max_examples=200, deadline=None)
def test_any_conversation_is_accepted_as_messages(messages: list[Message]) -> None:
    rules = Rules()
    for message in messages:
        if message["role"] == "assistant" and message.get("provider", "anthropic") == "anthropic":
            rules.remember(message["content"])
    body = _sent(anthropic.request_body(asking(*messages), "m"))
    assert rules.anthropic(body) is None


@given(conversations())
@settings(max_examples=200, deadline=None)
def test_any_conversation_is_accepted_as_a_chat(messages: list[Message]) -> None:
    body = _sent(openai.request_body(asking(*messages), "m", own=False))
    for mode in ("openai", "r1"):
        assert Rules().openai(body, mode) is None


@given(conversations())
@settings(max_examples=50, deadline=None)
def test_translating_changes_nothing_in_the_conversation(messages: list[Message]) -> None:
    before = json.dumps(messages)
    anthropic.request_body(asking(*messages), "m")
    openai.request_body(asking(*messages), "m", own=True)
    assert json.dumps(messages) == before


TALK = [
    user("add it"),
    {
        "role": "assistant",
        "provider": "openai",
        "content": [
            {"type": "thinking", "thinking": "hm"},
            said("Adding."),
            use("a", key="1"),
            use("b", key="2") | {"input": {}, "input_raw": '{"key"'},
        ],
    },
    user(result("a"), result("b", "the arguments were cut", is_error=True), "and now?"),
]


@pytest.mark.parametrize("wire", ["anthropic", "openai"])
async def test_a_conversation_moved_from_another_provider_is_accepted_over_http(wire: Wire) -> None:
    with FakeProvider([text("moved")]) as fake:
        answer = await model_on(fake, wire).answer(asking(*TALK))
        assert fake.refusals == []
    assert answer.blocks == [said("moved")]


def test_results_become_messages_directly_behind_their_calls_and_before_the_text() -> None:
    body = openai.request_body(asking(*TALK), "m", own=False)
    assert body["messages"][2:] == [
        {
            "role": "assistant",
            "content": "Adding.",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "ledger_add", "arguments": '{"key": "1"}'}},
                {"id": "b", "type": "function", "function": {"name": "ledger_add", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "added"},
        {"role": "tool", "tool_call_id": "b", "content": "the arguments were cut"},
        {"role": "user", "content": "and now?"},
    ]


def test_a_request_has_no_temperature_and_no_empty_parts() -> None:
    request = asking(user("hello"))
    bare = type(request)("", request.messages, [], 5)
    assert anthropic.request_body(bare, "m").keys() == {"model", "max_tokens", "messages", "stream"}
    chat = {"model", "messages", "stream", "stream_options"}
    assert openai.request_body(bare, "m", own=False).keys() == chat | {"max_tokens"}
    assert openai.request_body(bare, "m", own=True).keys() == chat | {"max_completion_tokens"}


def _sent(body: dict[str, Any]) -> dict[str, Any]:
    sent = strict_loads(json.dumps(body, allow_nan=False))
    assert isinstance(sent, dict)
    return sent
