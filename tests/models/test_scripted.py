"""The scripted provider: answers follow from the request alone, and a bad file is named with its line."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from engine.models.build import build_model
from engine.models.config import ModelConfig
from engine.models.contract import Message, Model, ModelAnswer
from protocol.errors import ConfigurationError, ModelRefused
from tests.models.asking import asking, result, settings_with, user

REFUNDS = r"""
conversations:
  - match: 'refund.*(?P<order>A-\d+)'
    steps:
      - text: I look up ${order}.
        calls:
          - {tool: lookup_order, args: {orderId: "${order}", deep: ["${order}", 1]}}
          - {tool: read_note}
      - text: Order ${order} is refunded.
  - match: forever
    steps:
      - calls: [{tool: poll}]
  - steps:
      - {text: Hello!, stop: refusal}
"""


def model_of(folder: Path, script: str = REFUNDS) -> Model:
    (folder / "answers.yml").write_text(script)
    return build_model(ModelConfig("scripted", script="answers.yml"), folder, settings_with())


async def answer_of(model: Model, *messages: Message) -> ModelAnswer:
    return await model.answer(asking(*messages))


def _assistant(answer: ModelAnswer) -> Message:
    return {"role": "assistant", "content": answer.blocks, "provider": answer.provider}


async def test_a_conversation_is_chosen_by_the_users_text_and_fills_in_its_groups(tmp_path: Path) -> None:
    answer = await answer_of(model_of(tmp_path), user("Please REFUND\norder A-77"))
    assert answer.blocks == [
        {"type": "text", "text": "I look up A-77."},
        {
            "type": "tool_use",
            "id": "call_1_0_0",
            "name": "lookup_order",
            "input": {"orderId": "A-77", "deep": ["A-77", 1]},
        },
        {"type": "tool_use", "id": "call_1_0_1", "name": "read_note", "input": {}},
    ]
    assert (answer.stop, answer.provider) == ("tool_use", "scripted")


async def test_each_answer_since_the_users_text_is_one_step(tmp_path: Path) -> None:
    model = model_of(tmp_path)
    talk = [user("refund A-1")]
    first = await answer_of(model, *talk)
    talk += [_assistant(first), user(result("call_1_0_0", "refund A-999"), result("call_1_0_1"))]
    second = await answer_of(model, *talk)
    assert (second.blocks, second.stop) == ([{"type": "text", "text": "Order A-1 is refunded."}], "end_turn")
    talk += [_assistant(second), user("refund A-2")]
    third = await answer_of(model, *talk)
    assert third.blocks[0]["text"] == "I look up A-2."
    assert third.blocks[1]["id"] != first.blocks[1]["id"]


async def test_the_same_request_gets_the_same_answer_from_a_new_model(tmp_path: Path) -> None:
    talk = [user("refund A-1")]
    assert await answer_of(model_of(tmp_path), *talk) == await answer_of(model_of(tmp_path), *talk)


async def test_a_note_of_the_engine_is_not_the_users_text(tmp_path: Path) -> None:
    model = model_of(tmp_path)
    first = await answer_of(model, user("refund A-1"))
    note = {"type": "text", "text": "Be brief now.", "note": True}
    results = user(result("call_1_0_0"), result("call_1_0_1"), note)
    second = await answer_of(model, user("refund A-1"), _assistant(first), results)
    assert second.blocks[0]["text"] == "Order A-1 is refunded."


async def test_after_the_last_step_its_text_is_said_again_and_nothing_is_called(tmp_path: Path) -> None:
    model = model_of(tmp_path)
    empty = {"role": "assistant", "content": [{"type": "text", "text": "x"}]}
    again = await answer_of(model, user("refund A-1"), *[empty] * 5)
    assert again.blocks == [{"type": "text", "text": "Order A-1 is refunded."}]
    ended = await answer_of(model, user("forever"), empty)
    assert [block["type"] for block in ended.blocks] == ["text"]


async def test_a_conversation_without_match_answers_everything_else(tmp_path: Path) -> None:
    answer = await answer_of(model_of(tmp_path), user("hi"))
    assert (answer.blocks[0]["text"], answer.stop) == ("Hello!", "refusal")


async def test_without_such_a_conversation_the_message_is_refused(tmp_path: Path) -> None:
    model = model_of(tmp_path, "conversations: [{match: x, steps: [{text: y}]}]")
    with pytest.raises(ModelRefused, match="add one without `match`"):
        await answer_of(model, user("hi"))


async def test_text_is_shown_in_pieces(tmp_path: Path) -> None:
    text = "one two three four five six seven eight nine ten  "
    model = model_of(tmp_path, f"conversations: [{{steps: [{{text: '{text}'}}]}}]")
    shown: list[str] = []
    await model.answer(asking(user("x")), shown.append)
    assert len(shown) > 1
    assert "".join(shown) == text


async def test_a_step_may_take_its_time(tmp_path: Path) -> None:
    model = model_of(tmp_path, "conversations: [{steps: [{text: y, sleep: 0.2}]}]")
    began = time.monotonic()
    await answer_of(model, user("x"))
    assert time.monotonic() - began >= 0.2


async def test_a_changed_file_is_read_again_and_a_broken_one_is_not_forgotten(tmp_path: Path) -> None:
    model_of(tmp_path)
    for _ in range(2):
        with pytest.raises(ConfigurationError):
            model_of(tmp_path, "conversations: 5")
    answer = await answer_of(model_of(tmp_path, "conversations: [{steps: [{text: new}]}]"), user("x"))
    assert answer.blocks[0]["text"] == "new"


@pytest.mark.parametrize(
    ("script", "line", "words"),
    [
        ("", 1, "empty"),
        ("[]", 1, "expected a mapping"),
        ("conversations: []", 1, "an empty list"),
        ("conversations:\n  - steps: [{text: x}]\n    stepz: 1", 3, "unknown key 'stepz'"),
        ("conversations:\n  - match: x", 2, "the key `steps`"),
        ("conversations:\n  - steps:\n      - txt: x", 3, "unknown key 'txt'"),
        ("conversations:\n  - steps:\n      - {}", 3, "says nothing"),
        ("conversations:\n  - steps:\n      - text: 5", 3, "expected text"),
        ("conversations:\n  - steps: [{text: x}]\n  - match: x\n    steps: [{text: x}]", 2, "to be the last"),
        ("conversations:\n  - match: '('\n    steps: [{text: x}]", 2, "regular expression"),
        ("conversations:\n  - match: x\n    steps:\n      - text: ${order}", 4, "named group"),
        ("conversations:\n  - match: x\n    steps:\n      - calls: [{tool: t, args: {a: ['${b}']}}]", 4, "named group"),
        ("conversations:\n  - steps:\n      - calls: [{args: {}}]", 3, "the key `tool`"),
        ("conversations:\n  - steps:\n      - calls: [{tool: t, args: []}]", 3, "expected a mapping"),
        ("conversations:\n  - steps:\n      - {text: x, sleep: -1}", 3, "expected seconds"),
        ("conversations:\n  - steps:\n      - {text: x, sleep: soon}", 3, "expected seconds"),
        ("conversations:\n  - steps:\n      - {text: x, stop: now}", 3, "expected one of end_turn"),
        ("conversations:\n  - steps:\n      - text: x\n        text: y", 4, "again"),
        ("conversations: ]", 1, "YAML"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path: Path, script: str, line: int, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        model_of(tmp_path, script)
    assert (caught.value.file, caught.value.line) == (str(tmp_path / "answers.yml"), line)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="the script of the scripted model is not there"):
        build_model(ModelConfig("scripted", script="gone.yml"), tmp_path, settings_with())
