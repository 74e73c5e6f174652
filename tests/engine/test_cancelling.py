"""Cancelling ends a turn wherever it stands, without a worker, and every call gets its one result."""

from __future__ import annotations

import asyncio
import contextlib

from protocol.errors import ModelBusy, TurnLost
from tests.engine.scene import Hang, Scene, calls, lines, said

CANCELLED = "done  cancelled"


async def cancel(scene: Scene) -> str | None:
    return await scene.runtime.cancel("acme", "agent", scene.session_id)


async def test_a_queued_turn_ends_as_cancelled_and_its_message_stays_in_the_session(scene: Scene) -> None:
    await scene.say()
    assert await cancel(scene) == scene.turn_id
    assert await scene.story() == ["session", CANCELLED]
    assert await scene.claim() is None
    assert [record["t"] for record in await scene.log()] == ["turn", "ended"]


async def test_a_parked_turn_closes_its_item_and_answers_its_calls(scene: Scene) -> None:
    await scene.say(calls("read a", "pay b", text="let me"))
    await scene.work()
    await cancel(scene)
    assert (await scene.story())[4:] == lines("""
        approval:pending T.1.1.1 pay {"what": "b"} matched rule 'payments'
        tool:result 1.0 read Cancelled.
        tool:result 1.1 pay Cancelled.
        done let me cancelled
    """)
    assert await scene.runtime.inbox("acme") == []


async def test_a_running_turn_is_taken_from_its_worker(scene: Scene) -> None:
    await scene.say(calls("act a", "act b"))
    scene.hanging["act"] = 1
    working = asyncio.create_task(scene.work())
    await scene.stuck.wait()
    await cancel(scene)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    assert (await scene.story())[-3:] == lines("""
        tool:result 1.0 act Cancelled.
        tool:result 1.1 act Cancelled.
        done  cancelled
    """)
    results = {record["at"]: record["content"] for record in await scene.log() if record["t"] == "result"}
    assert results == {
        "1.0": "The call was stopped while it was running and may have had effects. Its outcome is unknown.",
        "1.1": "The call was not run.",
    }


async def test_what_its_worker_finishes_afterwards_does_not_count(scene: Scene) -> None:
    await scene.say(said("too late"))
    claim = await scene.claim()
    assert claim is not None
    await cancel(scene)
    before = (await scene.story(), await scene.log())
    with contextlib.suppress(TurnLost):
        await scene.run(claim)
    assert (await scene.story(), await scene.log()) == before


async def test_a_waiting_turn_becomes_the_next_when_the_one_before_is_cancelled(scene: Scene) -> None:
    await scene.say(message="one")
    second = await scene.say(said("two"), message="two")
    await cancel(scene)
    assert scene.fields(second)["state"] == "queued"
    assert await scene.work() == "done"
    texts = [block["text"] for message in scene.model.requests[0].messages for block in message["content"]]
    assert texts == ["one", "two"]


async def test_cancelling_what_has_ended_changes_nothing(scene: Scene) -> None:
    await scene.say(said("ok"))
    await scene.work()
    before = (await scene.story(), await scene.log())
    assert await cancel(scene) is None
    assert (await scene.story(), await scene.log()) == before


async def test_a_turn_that_waits_for_its_provider_can_be_cancelled(scene: Scene) -> None:
    await scene.say(ModelBusy("overloaded", 700.0))
    assert await scene.work() == "queued"
    await cancel(scene)
    assert (await scene.story())[-1] == CANCELLED
    scene.make_due()
    assert await scene.claim() is None


async def test_the_session_goes_on_after_a_cancelled_turn(scene: Scene) -> None:
    await scene.say(calls("act a"))
    scene.hanging["act"] = 1
    await scene.work_until_killed()
    await cancel(scene)
    await scene.say(said("ok"), message="and now?")
    assert await scene.work() == "done"


async def test_a_killed_worker_s_turn_can_be_cancelled_before_anybody_resumes_it(scene: Scene) -> None:
    await scene.say(Hang())
    await scene.work_until_killed()
    await cancel(scene)
    assert await scene.story() == ["session", "budget:check ok", CANCELLED]
