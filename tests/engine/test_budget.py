"""The context budget: what it estimates, when it says something, and that the model is told once."""

from __future__ import annotations

import pytest

from engine.budget import NUDGE, check, tokens_of
from tests.engine.scene import Scene, calls, said


def test_four_characters_are_a_token_whatever_they_are_part_of() -> None:
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "x" * 40}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "u", "name": "n", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "u", "content": "y" * 80}]},
    ]
    call = len('{"type":"tool_use","id":"u","name":"n","input":{}}')
    assert tokens_of(messages, "s" * 20) == -(-(20 + 40 + 80 + call) // 4)
    assert tokens_of([], "") == 0


@pytest.mark.parametrize(
    ("used", "at", "nudged", "action"),
    [
        (79, "2", False, "ok"),
        (80, "2", False, "nudge"),
        (80, "2", True, "ok"),
        (80, "1", False, "ok"),
        (99, "3", False, "nudge"),
        (100, "2", False, "over_hard_limit"),
        (300, "1", True, "over_hard_limit"),
    ],
)
def test_what_the_budget_says_to_how_much_is_used(used: int, at: str, nudged: bool, action: str) -> None:
    draft = check(used, 100, at, nudged)
    [event] = draft.events
    assert event["action"] == action
    assert (event["usedTokens"], event["budgetTokens"], event["ratio"]) == (used, 100, used / 100)
    assert ("nudge" in event) == bool(draft.records) == (action == "nudge")


async def test_the_model_is_nudged_once_a_turn_and_only_between_its_calls(scene: Scene) -> None:
    scene.agent = scene.agent_with(context_budget_tokens=1000)
    await scene.say(
        calls("read " + "x" * 1600), calls("read a"), calls("read b"), said("ok"), message="m" * 40
    )  # fmt: skip
    assert await scene.work() == "done"
    checks = [line.split()[1] for line in await scene.story() if line.startswith("budget:check")]
    assert checks == ["ok", "nudge", "ok", "ok"]
    seen = [NUDGE in str(request.messages) for request in scene.model.requests]
    assert seen == [False, True, True, True]
    assert str(scene.model.requests[3].messages).count(NUDGE) == 1


async def test_the_estimate_counts_what_is_sent(scene: Scene) -> None:
    scene.agent = scene.agent_with(context_budget_tokens=100, system_prompt="p" * 60)
    await scene.say(said("ok"), message="m" * 300)
    await scene.work()
    assert (await scene.story())[1] == "budget:check ok"
    await scene.say(said("ok"), message="m" * 300)
    await scene.work()
    assert (await scene.story())[1] == "budget:check over_hard_limit"
