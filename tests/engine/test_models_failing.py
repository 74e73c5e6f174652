"""What becomes of a turn whose model call fails: tried again at once, later, with more room, or given up."""

from __future__ import annotations

import pytest

from engine.plan import MOST_ATTEMPTS
from protocol.errors import ModelBusy, ModelCut, ModelError, ModelRefused, ModelTooLong
from tests.engine.scene import Scene, calls, lines, said

NOTHING = calls()


async def test_a_cut_answer_is_asked_for_again_at_once(scene: Scene) -> None:
    await scene.say(ModelCut("the stream broke"), said("ok"))
    assert await scene.work() == "done"
    assert await scene.story() == ["session", "budget:check ok", "budget:check ok", "loop:done ok", "done ok"]


async def test_a_busy_provider_is_waited_for_without_a_worker_as_long_as_it_asks(scene: Scene) -> None:
    await scene.say(ModelBusy("overloaded", retry_after_s=700.0), said("ok"))
    assert await scene.work() == "queued"
    assert 690 < scene.due_in_s() <= 700
    assert scene.fields()["note"] == "waiting for the model provider: overloaded"
    assert scene.raw.zcard(scene.keys.running) == 0
    assert await scene.claim() is None
    scene.make_due()
    assert await scene.work("w2") == "done"
    assert await scene.story() == ["session", "budget:check ok", "budget:check ok", "loop:done ok", "done ok"]


async def test_a_provider_that_names_no_time_is_asked_again_after_growing_pauses(scene: Scene) -> None:
    await scene.say(*[ModelBusy("overloaded")] * 3, said("ok"))
    for longest_s in (1.0, 2.0, 4.0):
        assert await scene.work() == "queued"
        assert longest_s / 2 - 1 < scene.due_in_s() <= longest_s
        scene.make_due()
    assert await scene.work() == "done"


ENDS = [
    pytest.param([ModelBusy("overloaded")] * MOST_ATTEMPTS["retry"], "overloaded", id="always busy"),
    pytest.param([ModelCut("broke")] * MOST_ATTEMPTS["cut"], "broke", id="always cut"),
    pytest.param([NOTHING] * MOST_ATTEMPTS["empty"], "the model answered with nothing (stop: tool_use)", id="empty"),
    pytest.param(
        [calls("act a", stop="max_tokens")] * MOST_ATTEMPTS["truncated"],
        "the answer was cut by the output limit inside a tool call; nothing of it was run",
        id="calls always truncated",
    ),
    pytest.param([ModelTooLong("too long")], "too long", id="too long"),
    pytest.param([ModelRefused("no such model")], "no such model", id="refused"),
]


@pytest.mark.parametrize(("answers", "reason"), ENDS)
async def test_a_model_that_keeps_failing_ends_the_turn_with_its_reason(
    scene: Scene, answers: list[ModelError], reason: str
) -> None:
    await scene.say(*answers)
    while await scene.work() == "queued":
        scene.make_due()
    assert (await scene.story())[-2:] == [f"error {reason}", "done  error"]
    assert scene.model.script == []
    assert scene.ledger == []
    view = await scene.runtime.turn("acme", scene.turn_id)
    assert (view.state, view.stop_reason, view.error) == ("done", "error", reason)


async def test_an_answer_to_the_next_call_forgets_the_attempts_of_the_one_before(scene: Scene) -> None:
    cut = ModelCut("broke")
    await scene.say(cut, cut, calls("read a"), cut, cut, said("ok"))
    assert await scene.work() == "done"


async def test_a_truncated_call_is_asked_for_once_more_with_twice_the_room(scene: Scene) -> None:
    await scene.say(calls("act half", stop="max_tokens"), calls("act whole"), said("ok"))
    assert await scene.work() == "done"
    assert scene.ledger == ["act whole"]
    room = [request.max_tokens for request in scene.model.requests]
    assert room == [room[0], room[0] * 2, room[0]]


async def test_a_text_that_is_truncated_twice_counts_as_it_is(scene: Scene) -> None:
    await scene.say(said("once upon", stop="max_tokens"), said("once upon a time", stop="max_tokens"))
    assert await scene.work() == "done"
    assert (await scene.story())[-1] == "done once upon a time"


async def test_a_failed_turn_keeps_the_last_thing_that_was_said(scene: Scene) -> None:
    await scene.say(calls("read a", text="let me see"), ModelRefused("gone"))
    assert await scene.work() == "done"
    assert (await scene.story())[-2:] == lines("""
        error gone
        done let me see error
    """)


async def test_after_a_failed_turn_the_session_goes_on(scene: Scene) -> None:
    await scene.say(ModelRefused("gone"))
    await scene.work()
    await scene.say(said("better"), message="again")
    assert await scene.work() == "done"
    texts = [block["text"] for message in scene.model.requests[-1].messages for block in message["content"]]
    assert texts == ["hello", "again"]
