"""The fake is strict: each of its rules refuses what breaks it. Without these, most other tests pass by accident."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.fake_provider import FakeProvider, Mode, Rules, calls, running_fake, text
from tests.models.asking import result, said, use, user

THOUGHT = {"type": "thinking", "thinking": "hm ", "signature": "s"}
CALLING = {"role": "assistant", "content": [THOUGHT, use("a"), use("b")]}
HEADERS = {"authorization": "Bearer x"}


def _rules() -> Rules:
    rules = Rules()
    rules.remember(CALLING["content"])  # type: ignore[arg-type]
    return rules


def _body(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 5, "messages": list(messages), **more}


def _assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


BOTH = user(result("a"), result("b"))


def test_a_good_conversation_is_accepted() -> None:
    assert _rules().anthropic(_body(user("x"), CALLING, BOTH)) is None


def test_thinking_of_a_closed_turn_may_be_gone_as_a_whole() -> None:
    without = _assistant(use("a"), use("b"))
    assert _rules().anthropic(_body(user("x"), without, BOTH, _assistant(said("ok")), user("y"))) is None


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([CALLING, BOTH], "must be the user's"),
        ([user("x"), CALLING, user(result("a"))], "'b' has 0 results"),
        ([user("x"), CALLING, user(result("a"), result("a"), result("b"))], "'a' has 2 results"),
        ([user("x"), CALLING, user("y"), BOTH], "'a' has 0 results"),
        ([user("x"), CALLING], "'a' has 0 results"),
        ([user("x"), user(result("z"))], "'z' has no call"),
        ([user("x"), _assistant(use("a"), said("more")), user(result("a"))], "behind the first tool_use"),
        ([user("x"), CALLING, user("y", result("a"), result("b"))], "must come first"),
        ([user(" \n")], "non-whitespace"),
        ([user("x"), _assistant(), user("y")], "non-empty content"),
        ([user("x"), _assistant(said("")), user("y")], "non-whitespace"),
        ([user("x"), _assistant(THOUGHT | {"thinking": "hm"}, use("a"), use("b")), BOTH], "cannot be modified"),
        ([user("x"), _assistant(use("a"), use("b")), BOTH], "must be the same"),
        ([user("x"), _assistant(use("a", "no.dots")), user(result("a"))], "does not match"),
        ([user("x"), _assistant(use("a") | {"input": []}), user(result("a"))], "must be an object"),
        ([user("x"), _assistant(use("a") | {"input_raw": ""}), user(result("a"))], "extra inputs"),
        ([user("x") | {"provider": "anthropic"}], "extra inputs"),
    ],
)
def test_a_broken_conversation_is_refused_on_the_messages_wire(messages: list[dict[str, Any]], words: str) -> None:
    assert words in (_rules().anthropic(_body(*messages)) or "accepted")


def test_ids_of_calls_must_not_repeat() -> None:
    once = [_assistant(use("a")), user(result("a"))]
    assert "is there twice" in (Rules().anthropic(_body(user("x"), *once, *once)) or "accepted")


@pytest.mark.parametrize("tools", [["a b"], [""], ["x" * 65], ["same", "same"]])
def test_tool_names_must_be_plain_and_unique(tools: list[str]) -> None:
    wires = {
        "anthropic": _body(user("x"), tools=[{"name": name} for name in tools]),
        "openai": _body(_chat("user", "x"), tools=[{"type": "function", "function": {"name": n}} for n in tools]),
    }
    assert "tools:" in (Rules().anthropic(wires["anthropic"]) or "")
    assert "tools:" in (Rules().openai(wires["openai"]) or "")


def _chat(role: str, content: str | None, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def _chat_call(id_: str, arguments: str = "{}", name: str = "t") -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


CALLED = _chat("assistant", None, tool_calls=[_chat_call("a")])
TOLD = _chat("tool", "added", tool_call_id="a")


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([_chat("user", "x"), CALLED], "'a' has 0 results"),
        ([_chat("user", "x"), CALLED, _chat("user", "y"), TOLD], "'a' has 0 results"),
        ([_chat("user", "x"), CALLED, TOLD, TOLD], "'a' has 2 results"),
        ([_chat("user", "x"), TOLD], "'a' has no call"),
        ([_chat("user", "")], "blank"),
        ([_chat("user", "x"), CALLED, _chat("tool", " ", tool_call_id="a")], "blank"),
        ([_chat("user", "x"), _chat("assistant", None)], "blank"),
        ([_chat("user", "x"), _chat("assistant", "y", tool_calls=[])], "must not be empty"),
        ([_chat("user", "x"), _chat("assistant", None, tool_calls=[_chat_call("a", "[]")]), TOLD], "an object"),
        ([_chat("user", "x"), _chat("assistant", None, tool_calls=[_chat_call("a", "{")]), TOLD], "not JSON"),
        ([_chat("user", "x"), _chat("assistant", None, tool_calls=[_chat_call("a", name="")]), TOLD], "not match"),
        ([_chat("user", "x"), _chat("assistant", "y", reasoning_content="hm")], "extra inputs"),
    ],
)
def test_a_broken_conversation_is_refused_on_the_chat_wire(messages: list[dict[str, Any]], words: str) -> None:
    assert Rules().openai(_body(_chat("user", "x"), CALLED, TOLD)) is None
    assert words in (Rules().openai(_body(*messages)) or "accepted")


@pytest.mark.parametrize(
    ("mode", "sent_back", "accepted"),
    [("deepseek", "hm", True), ("deepseek", None, False), ("r1", "hm", False), ("r1", None, True)],
)
def test_reasoning_goes_back_to_deepseek_with_calls_and_never_to_r1(
    mode: Mode, sent_back: str | None, accepted: bool
) -> None:
    rules = Rules()
    rules.remember([{"type": "thinking", "thinking": "hm"}, use("a")])
    called = CALLED if sent_back is None else CALLED | {"reasoning_content": sent_back}
    assert (rules.openai(_body(_chat("user", "x"), called, TOLD), mode) is None) is accepted


@pytest.mark.parametrize(
    "raw",
    [b"{", b'{"a":NaN}', b'{"a":"\\ud800"}', b'{"a":1,"a":2}', b'{"a":"\xff"}', b"[]"],
)
async def test_a_body_that_is_not_strict_json_is_refused_and_takes_no_entry(raw: bytes) -> None:
    with FakeProvider([text("Hi")]) as fake:
        async with httpx2.AsyncClient() as client:
            refused = await client.post(f"{fake.url}/v1/messages", content=raw, headers=HEADERS)
            assert refused.status_code == 400
            answered = await client.post(f"{fake.url}/v1/messages", json=_body(user("x")), headers=HEADERS)
        assert answered.json()["content"] == [said("Hi")]
        assert len(fake.refusals) == 1


async def test_a_body_over_the_limit_is_too_long() -> None:
    with FakeProvider([text("Hi")], max_bytes=100) as fake:
        async with httpx2.AsyncClient() as client:
            refused = await client.post(f"{fake.url}/v1/messages", json=_body(user("x" * 100)), headers=HEADERS)
    assert "prompt is too long" in refused.json()["error"]["message"]


async def test_entries_can_be_keyed_by_the_users_text_or_made_by_a_function() -> None:
    keyed = {"red": [text("r1"), text("r2")], "blue": [text("b1")]}
    with FakeProvider(keyed) as fake:
        assert [await _say(fake, word) for word in ("blue", "red", "red")] == ["b1", "r1", "r2"]
    with FakeProvider(lambda body, index: text(f"{index} {body['model']}")) as fake:
        assert [await _say(fake, "x") for _ in range(2)] == ["0 m", "1 m"]


async def test_calls_are_answered_on_the_chat_wire_without_a_stream_too() -> None:
    with FakeProvider([calls(("a", "t", {"x": 1}))]) as fake:
        async with httpx2.AsyncClient() as client:
            url = f"{fake.openai_url}/chat/completions"
            answered = (await client.post(url, json=_body(_chat("user", "x")), headers=HEADERS)).json()
    assert answered["choices"][0]["message"]["tool_calls"] == [_chat_call("a", '{"x": 1}')]
    assert answered["choices"][0]["finish_reason"] == "tool_calls"


async def test_a_fake_of_its_own_process_keeps_a_log_and_ends_with_the_test(tmp_path: Path) -> None:
    with running_fake([text("Hi")], tmp_path, otherwise=text("again")) as fake:
        for expected in ("Hi", "again"):
            assert await _say(fake, "x") == expected
        assert [line["body"] for line in fake.lines] == [_body(user("x"))] * 2
        assert fake.refusals == []
    with pytest.raises(ProcessLookupError):
        os.kill(fake.pid, 0)


async def _say(fake: Any, words: str) -> str:
    async with httpx2.AsyncClient() as client:
        answered = await client.post(f"{fake.url}/v1/messages", json=_body(user(words)), headers=HEADERS)
    return str(json.loads(answered.text)["content"][0]["text"])
