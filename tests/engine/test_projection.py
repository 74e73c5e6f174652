"""What the provider is told of a session: valid whatever happened, and nothing but what was said."""

from __future__ import annotations

from typing import Any

import pytest

from engine.plan import NOT_RUN, STOPPED
from engine.projection import messages_of, states_of
from engine.records import Record, call_resulted, calls_started, context_noted, turn_begun, turn_ended
from tests.engine.driving import answered


def begun(turn: str = "t_1", message: str = "hello") -> Record:
    return turn_begun(message, "agent", "test", "") | {"turn": turn}


def of(turn: str, *records: Record) -> list[Record]:
    return [record | {"turn": turn} for record in records]


def project(*records: Record) -> list[dict[str, Any]]:
    return messages_of(
        states_of([record if "turn" in record else record | {"turn": "t_1"} for record in records]).values()
    )


def test_calls_are_answered_in_call_order_whatever_the_order_of_their_ends() -> None:
    messages = project(
        begun(),
        answered("1", ["read", "read"]),
        call_resulted("1.1", "ok", "second"),
        call_resulted("1.0", "error", "first"),
    )
    assert [(b["tool_use_id"], b["content"], b["is_error"]) for b in messages[2]["content"]] == [
        ("use_1_0", "first", True), ("use_1_1", "second", False),
    ]  # fmt: skip


def test_an_unanswered_call_was_stopped_if_it_had_begun_and_else_not_run() -> None:
    messages = project(
        begun(),
        answered("1", ["act", "act"]),
        calls_started("claim", [{"at": "1.0", "digest": "", "key": "", "uses": None}]),
    )
    assert [block["content"] for block in messages[2]["content"]] == [STOPPED, NOT_RUN]


def test_words_of_the_user_join_the_results_before_them() -> None:
    messages = project(
        begun(), answered("1", ["read"]), turn_ended("cancelled", ""), *of("t_2", begun("t_2", "and now?"))
    )  # fmt: skip
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert [block["type"] for block in messages[2]["content"]] == ["tool_result", "text"]


def test_two_messages_without_an_answer_are_one() -> None:
    messages = project(begun(), turn_ended("cancelled", ""), *of("t_2", begun("t_2", "still there?")))
    assert messages == [
        {"role": "user", "content": [{"type": "text", "text": "hello"}, {"type": "text", "text": "still there?"}]}
    ]


def test_a_nudge_stands_behind_the_results_it_came_with_and_is_no_word_of_the_user() -> None:
    messages = project(
        begun(), answered("1", ["read"]), call_resulted("1.0", "ok", "x"), context_noted("nudge", "hurry", "2")
    )  # fmt: skip
    assert messages[2]["content"][1] == {"type": "text", "text": "hurry", "note": True}


def test_a_call_without_output_says_so() -> None:
    messages = project(begun(), answered("1", ["read"]), call_resulted("1.0", "ok", " \n"))
    assert messages[2]["content"][0]["content"] == "(no output)"


@pytest.mark.parametrize("use_id", ["", "use 1", "ü", "x" * 65])
def test_an_id_that_a_provider_would_refuse_is_replaced(use_id: str) -> None:
    record = answered("1", ["read"])
    record["calls"][0]["id"] = use_id
    messages = project(begun(), record, call_resulted("1.0", "ok", "x"))
    [use], [result] = messages[1]["content"], messages[2]["content"]
    assert use["id"] == result["tool_use_id"] == "call_t_1_1_0"


def test_an_id_that_was_used_before_is_replaced() -> None:
    again = answered("2", ["read"])
    again["calls"][0]["id"] = "use_1_0"
    messages = project(
        begun(), answered("1", ["read"]), call_resulted("1.0", "ok", "x"), again, call_resulted("2.0", "ok", "y")
    )  # fmt: skip
    ids = [block["id"] for message in messages for block in message["content"] if block["type"] == "tool_use"]
    assert ids == ["use_1_0", "call_t_1_2_0"]


@pytest.mark.parametrize(("tool", "sent"), [("", "unnamed"), ("a tool!", "a_tool_"), ("x" * 70, "x" * 64)])
def test_a_name_that_a_provider_would_refuse_is_made_acceptable(tool: str, sent: str) -> None:
    record = answered("1", ["read"])
    record["calls"][0]["tool"] = tool
    assert project(begun(), record)[1]["content"][0]["name"] == sent


def test_thinking_comes_back_as_it_was() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s="}
    messages = project(begun(), answered("1", ["read"], "so", [thinking]))
    assert messages[1]["content"][0] == thinking
    assert messages[1]["provider"] == "anthropic"


def test_thinking_alone_is_no_message() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s="}
    assert len(project(begun(), answered("1", [], "", [thinking]))) == 1


def test_history_that_was_projected_before_is_left_as_it_is() -> None:
    first = states_of([begun(), *of("t_1", answered("1", [], "hi"))])
    history = messages_of(first.values())
    second = states_of(of("t_2", begun("t_2", "more")))
    together = messages_of(second.values(), history)
    assert together[:-1] == history
    assert together[-1]["content"] == [{"type": "text", "text": "more"}]
