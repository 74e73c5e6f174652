"""A worker dies in the middle: another one goes on, and nothing is done twice, lost or believed."""

from __future__ import annotations

import pytest

from engine.fold import TooNew
from engine.records import VERSION
from protocol.errors import TurnLost
from tests.engine.scene import Hang, Scene, calls, lines, said

RESUMED = "turn:resumed 1 its worker was lost; finished steps are kept"
ASKED = (
    'question:pending T.1.0.1 act was interrupted while it was running with {"what":"a"}. Nobody knows whether it had '
    'its effect. Please find out, then choose. agent ["run again", "it happened", "it failed"]'
)


async def test_a_model_call_that_was_lost_is_made_again(scene: Scene) -> None:
    await scene.say(Hang(), said("ok"))
    await scene.work_until_killed("w1")
    assert await scene.work("w2") == "done"
    assert await scene.story() == lines(f"""
        session
        budget:check ok
        {RESUMED}
        budget:check ok
        loop:done ok
        done ok
    """)


async def test_a_finished_model_call_and_a_finished_tool_are_not_repeated(scene: Scene) -> None:
    await scene.say(calls("act a"), calls("read b"), said("ok"))
    scene.hanging["read"] = 1
    await scene.work_until_killed("w1")
    assert await scene.work("w2") == "done"
    assert scene.ledger == ["act a", "read b"]
    assert len(scene.model.requests) == 3
    plain = [line for line in await scene.story() if line != RESUMED]
    assert plain == lines("""
        session
        budget:check ok
        actauth:decision act allow matched rule 'all'
        tool:started 1.0 act {"what": "a"} matched rule 'all'
        toollane:result act act a done
        tool:result 1.0 act Approved. matched rule 'all'
        budget:check ok
        actauth:decision read allow matched rule 'all'
        tool:started 2.0 read {"what": "b"} matched rule 'all'
        toollane:result read read b done
        tool:result 2.0 read Approved. matched rule 'all'
        budget:check ok
        loop:done ok
        done ok
    """)


@pytest.mark.parametrize("tool", ["read", "idem"])
async def test_a_harmless_call_that_was_interrupted_runs_again_silently(scene: Scene, tool: str) -> None:
    await scene.say(calls(f"{tool} a"), said("ok"))
    scene.hanging[tool] = 1
    await scene.work_until_killed("w1")
    assert await scene.work("w2") == "done"
    assert scene.ledger == [f"{tool} a"]
    assert scene.keys_seen == ["T.1.0", "T.1.0"]  # under the same idempotency key
    assert [line.split()[0] for line in await scene.story()] == [
        "session", "budget:check", "actauth:decision", "tool:started", "turn:resumed", "toollane:result",
        "tool:result", "budget:check", "loop:done", "done",
    ]  # fmt: skip


async def _interrupted(scene: Scene, call: str = "act a") -> None:
    await scene.say(calls(call), said("ok"))
    scene.hanging[call.split()[0]] = 1
    await scene.work_until_killed("w1")
    assert await scene.work("w2") == "parked"
    assert scene.ledger == []


@pytest.mark.parametrize(
    ("answer", "ran", "events"),
    [
        (
            "run again",
            ["act a"],
            ["toollane:result act act a done", "tool:result 1.0 act Approved. matched rule 'all'"],
        ),
        ("it happened", [], ["tool:result 1.0 act Unknown."]),
        ("it failed", [], ["tool:result 1.0 act Error."]),
    ],
)
async def test_an_interrupted_effect_is_unknown_and_a_person_says_what_became_of_it(
    scene: Scene, answer: str, ran: list[str], events: list[str]
) -> None:
    await _interrupted(scene)
    await scene.decide("answer", answer)
    assert await scene.work("w2") == "done"
    assert scene.ledger == ran
    assert await scene.story() == [
        "session",
        "budget:check ok",
        "actauth:decision act allow matched rule 'all'",
        'tool:started 1.0 act {"what": "a"} matched rule \'all\'',
        RESUMED,
        ASKED,
        *events,
        "budget:check ok",
        "loop:done ok",
        "done ok",
    ]


async def test_run_again_is_used_up_by_one_run(scene: Scene) -> None:
    await _interrupted(scene)
    await scene.decide("answer", "run again")
    scene.hanging["act"] = 1
    await scene.work_until_killed("w3")
    assert await scene.work("w4") == "parked"
    assert (await scene.item()).id == f"{scene.turn_id}.1.0.2"
    assert scene.ledger == []
    used = [call["uses"] for record in await scene.log() if record["t"] == "started" for call in record["calls"]]
    assert used == [None, f"{scene.turn_id}.1.0.1"]


async def test_an_approval_does_not_pay_for_a_second_run(scene: Scene) -> None:
    await scene.say(calls("pay a"), said("ok"))
    await scene.work()
    await scene.decide("approve")
    scene.hanging["pay"] = 1
    await scene.work_until_killed("w1")
    assert await scene.work("w2") == "parked"
    item = await scene.item()
    assert (item.id, item.kind, item.is_outcome) == (f"{scene.turn_id}.1.0.2", "question", True)
    assert scene.ledger == []


async def test_an_effect_that_says_fail_on_interrupt_asks_nobody(scene: Scene) -> None:
    await scene.say(calls("fragile a"), said("I do not know"))
    scene.hanging["fragile"] = 1
    await scene.work_until_killed("w1")
    assert await scene.work("w2") == "done"
    assert scene.ledger == []
    assert "tool:result 1.0 fragile Unknown." in await scene.story()
    told = scene.model.requests[1].messages[-1]["content"][0]
    assert told["is_error"]
    assert "may have had effects" in told["content"]


async def test_an_approval_given_before_the_crash_still_counts_after_it(scene: Scene) -> None:
    await scene.say(calls("read a", "pay b"), said("ok"))
    await scene.work()
    await scene.decide("approve")
    scene.hanging["read"] = 1
    await scene.work_until_killed("w1")
    assert await scene.work("w2") == "done"
    assert scene.ledger == ["read a", "pay b"]


@pytest.mark.parametrize("script", [[calls("read a")], [Hang(), Hang(), Hang()]], ids=["in a tool", "in a model call"])
async def test_a_turn_that_kills_three_workers_is_given_up(scene: Scene, script: list[Hang], redis_url: str) -> None:
    await scene.say(*script)
    scene.hanging["read"] = 3
    for worker in ("w1", "w2", "w3"):
        await scene.work_until_killed(worker)
    assert await scene.work("w4") == "done"
    reason = "the turn was given up: 3 workers in a row were lost while they ran it"
    assert (await scene.story())[-2:] == [f"error {reason}", "done  error"]
    assert [line for line in await scene.story() if line.startswith("turn:resumed")] == [
        RESUMED, RESUMED.replace("1", "2"),
    ]  # fmt: skip
    assert scene.ledger == []


async def test_progress_between_deaths_makes_a_turn_innocent_again(scene: Scene) -> None:
    await scene.say(calls("read a"), calls("read b"), said("ok"))
    scene.hanging["read"] = 1
    await scene.work_until_killed("w1")
    scene.hanging["read"] = 0
    claim = await scene.claim("w2")
    assert claim is not None
    assert claim.deaths == 1
    await scene.run(claim)
    assert scene.fields()["state"] == "done"
    assert scene.fields()["deaths"] == "0"


async def test_a_zombie_writes_nothing_and_its_turn_goes_on_elsewhere(scene: Scene) -> None:
    await scene.say(calls("act a"), said("ok"))
    zombie = await scene.claim("w1")
    assert zombie is not None
    await scene.release("w1")
    assert await scene.work("w2") == "done"
    before = await scene.story()
    scene.model.script = [said("from the grave")]
    with pytest.raises(TurnLost):
        await scene.run(zombie)
    assert await scene.story() == before
    assert scene.ledger == ["act a"]


async def test_a_record_of_a_newer_version_is_left_to_newer_workers(scene: Scene) -> None:
    await scene.say(said("ok"))
    claim = await scene.claim("newer")
    assert claim is not None
    await scene.write(claim, {"t": "dreamt", "v": VERSION + 1})
    claim = await scene.claim("w1")
    assert claim is not None
    with pytest.raises(TooNew, match=f"version {VERSION + 1}"):
        await scene.run(claim)
    assert len(await scene.story()) == 1


async def test_a_note_of_a_newer_version_is_skipped(scene: Scene) -> None:
    await scene.say(said("ok"))
    claim = await scene.claim("newer")
    assert claim is not None
    await scene.write(claim, {"t": "dreamt", "v": VERSION + 1, "note": True})
    assert await scene.work("w1") == "done"
