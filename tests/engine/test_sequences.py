"""The whole sequence of events of each way that a turn can go, when nothing goes wrong with workers or models."""

from __future__ import annotations

import pytest

import engine.turn
from tests.engine.scene import Scene, calls, lines, said


async def test_a_plain_answer(scene: Scene) -> None:
    await scene.say(said("hi"))
    assert await scene.work() == "done"
    assert await scene.story() == ["session", "budget:check ok", "loop:done hi", "done hi"]


async def test_calls_that_only_read_run_side_by_side_and_are_answered_in_call_order(scene: Scene) -> None:
    await scene.say(calls("read a", "look b", text="let me see"), said("ok"))
    assert await scene.work() == "done"
    assert await scene.story() == lines("""
        session
        budget:check ok
        assistant:text let me see
        actauth:decision read allow matched rule 'all'
        actauth:decision look allow matched rule 'all'
        tool:started 1.0 read {"what": "a"} matched rule 'all'
        tool:started 1.1 look {"what": "b"} matched rule 'all'
        toollane:result read read a done
        tool:result 1.0 read Approved. matched rule 'all'
        toollane:result look look b done
        tool:result 1.1 look Approved. matched rule 'all'
        budget:check ok
        loop:done ok
        done ok
    """)
    answers = scene.model.requests[1].messages[-1]["content"]
    assert [(one["tool_use_id"], one["content"]) for one in answers] == [
        ("use_0", "read a done"), ("use_1", "look b done"),
    ]  # fmt: skip


async def test_effects_run_alone_and_in_order_between_lanes_of_reads(scene: Scene) -> None:
    await scene.say(calls("read a", "act b", "read c", "look d", "act e"), said("ok"))
    assert await scene.work() == "done"
    assert scene.ledger == ["read a", "act b", "read c", "look d", "act e"]
    started_and_ended = [
        line.split()[0].removeprefix("tool:") + " " + line.split()[1]
        for line in await scene.story()
        if line.startswith(("tool:started", "tool:result"))
    ]
    assert started_and_ended == [
        "started 1.0", "result 1.0", "started 1.1", "result 1.1", "started 1.2", "started 1.3", "result 1.2",
        "result 1.3", "started 1.4", "result 1.4",
    ]  # fmt: skip


async def test_an_approved_call_runs_after_the_approval_and_in_its_place(scene: Scene) -> None:
    await scene.say(calls("read a", "pay b", "act c"), said("paid"))
    assert await scene.work() == "parked"
    assert scene.ledger == []
    await scene.decide("approve")
    assert await scene.work("w2") == "done"
    assert await scene.story() == lines("""
        session
        budget:check ok
        actauth:decision read allow matched rule 'all'
        approval:pending T.1.1.1 pay {"what": "b"} matched rule 'payments'
        actauth:decision pay allow approved by ann
        actauth:decision act allow matched rule 'all'
        tool:started 1.0 read {"what": "a"} matched rule 'all'
        toollane:result read read a done
        tool:result 1.0 read Approved. matched rule 'all'
        tool:started 1.1 pay {"what": "b"} matched rule 'payments'
        toollane:result pay pay b done
        tool:result 1.1 pay Approved. matched rule 'payments'
        tool:started 1.2 act {"what": "c"} matched rule 'all'
        toollane:result act act c done
        tool:result 1.2 act Approved. matched rule 'all'
        budget:check ok
        loop:done paid
        done paid
    """)
    assert scene.ledger == ["read a", "pay b", "act c"]


async def test_two_gated_calls_are_asked_one_after_the_other_and_run_when_both_are_decided(scene: Scene) -> None:
    await scene.say(calls("pay a", "pay b"), said("paid"))
    assert await scene.work() == "parked"
    await scene.decide("approve")
    assert await scene.work() == "parked"
    assert scene.ledger == []
    await scene.decide("approve")
    assert await scene.work() == "done"
    assert [line for line in await scene.story() if line.startswith(("approval", "actauth", "tool:started"))] == lines(
        """
        approval:pending T.1.0.1 pay {"what": "a"} matched rule 'payments'
        actauth:decision pay allow approved by ann
        approval:pending T.1.1.1 pay {"what": "b"} matched rule 'payments'
        actauth:decision pay allow approved by ann
        tool:started 1.0 pay {"what": "a"} matched rule 'payments'
        tool:started 1.1 pay {"what": "b"} matched rule 'payments'
    """
    )
    assert [record["uses"] for r in await scene.log() if r["t"] == "started" for record in r["calls"]] == [
        f"{scene.turn_id}.1.0.1", f"{scene.turn_id}.1.1.1",
    ]  # fmt: skip


async def test_a_call_that_a_person_denies_ends_the_turn_and_its_siblings_are_skipped(scene: Scene) -> None:
    await scene.say(calls("read a", "pay b", "act c", text="I will pay"))
    await scene.work()
    await scene.decide("deny", "too much")
    assert await scene.work() == "done"
    assert await scene.story() == lines("""
        session
        budget:check ok
        assistant:text I will pay
        actauth:decision read allow matched rule 'all'
        approval:pending T.1.1.1 pay {"what": "b"} matched rule 'payments'
        actauth:decision pay deny denied by ann: too much
        loop:skipped read ["pay"]
        tool:result 1.0 read Skipped.
        tool:result 1.1 pay Denied.
        loop:skipped act ["pay"]
        tool:result 1.2 act Skipped.
        loop:denied ["pay"]
        done I will pay denied
    """)
    assert scene.ledger == []


async def test_the_next_turn_tells_the_model_what_was_denied_and_why(scene: Scene) -> None:
    await scene.say(calls("read a", "pay b"))
    await scene.work()
    await scene.decide("deny", "too much")
    await scene.work()
    await scene.say(said("sorry"), message="why?")
    await scene.work()
    _, _, told = scene.model.requests[-1].messages
    assert [block.get("content") or block.get("text") for block in told["content"]] == [
        "The call was not run, because pay in the same answer was denied.",
        "The call was denied: denied by ann: too much.",
        "why?",
    ]


async def test_a_call_that_a_rule_denies_cancels_the_batch_and_the_loop_goes_on(scene: Scene) -> None:
    await scene.say(calls("read a", "forbidden b", "pay c"), said("I may not"))
    assert await scene.work() == "done"
    assert await scene.story() == lines("""
        session
        budget:check ok
        actauth:decision read allow matched rule 'all'
        actauth:decision forbidden deny matched rule 'never'
        actauth:decision pay ask matched rule 'payments'
        loop:skipped read ["forbidden"]
        tool:result 1.0 read Skipped.
        tool:result 1.1 forbidden Denied.
        loop:skipped pay ["forbidden"]
        tool:result 1.2 pay Skipped.
        budget:check ok
        loop:done I may not
        done I may not
    """)
    assert scene.ledger == []


async def test_an_invalid_call_is_an_error_of_its_own_and_hinders_no_sibling(scene: Scene) -> None:
    await scene.say(calls("nothing a", "read b"), said("ok"))
    assert await scene.work() == "done"
    assert (await scene.story())[2:7] == lines(
        """
        tool:result 1.0 nothing Error. There is no tool named "nothing". The tools are: """
        """act, ask_user, forbidden, fragile, idem, look, pay, read.
        actauth:decision read allow matched rule 'all'
        tool:started 1.1 read {"what": "b"} matched rule 'all'
        toollane:result read read b done
        tool:result 1.1 read Approved. matched rule 'all'
    """
    )


async def test_a_question_waits_for_its_answer_and_that_is_its_result(scene: Scene) -> None:
    await scene.say(calls("ask_user which?"), said("blue it is"))
    assert await scene.work() == "parked"
    await scene.decide("answer", "blue")
    assert await scene.work() == "done"
    assert await scene.story() == lines("""
        session
        budget:check ok
        question:pending T.1.0.1 which? agent
        tool:result 1.0 ask_user Approved.
        budget:check ok
        loop:done blue it is
        done blue it is
    """)
    assert scene.model.requests[1].messages[-1]["content"][0]["content"] == "blue"


async def test_an_approval_that_nobody_gave_in_time_counts_as_denied(scene: Scene) -> None:
    scene.approval_expiry_s = 3600
    await scene.say(calls("pay a"))
    assert await scene.work() == "parked"
    scene.make_due()
    assert await scene.work() == "done"
    assert (await scene.story())[3:] == lines("""
        actauth:decision pay deny expired: nobody decided in time
        tool:result 1.0 pay Denied.
        loop:denied ["pay"]
        done  denied
    """)


async def test_a_turn_that_never_comes_to_an_end_stops_at_its_limit(scene: Scene) -> None:
    scene.agent = scene.agent_with(max_turns=2)
    await scene.say(calls("read a", text="one"), calls("read b", text="two"))
    assert await scene.work() == "done"
    assert (await scene.story())[-2:] == ["loop:max_turns 2", "done two max_turns"]
    assert scene.ledger == ["read a", "read b"]


async def test_a_tool_that_fails_is_an_error_for_the_model_and_the_loop_goes_on(scene: Scene) -> None:
    scene.failing.add("act")
    await scene.say(calls("act a"), said("it is broken"))
    assert await scene.work() == "done"
    assert "tool:result 1.0 act Error. matched rule 'all'" in await scene.story()
    result = scene.model.requests[1].messages[-1]["content"][0]
    assert result["is_error"]
    assert "act is broken" in result["content"]


async def test_turns_of_one_session_run_one_after_the_other(scene: Scene) -> None:
    first = await scene.say(said("one"))
    second = await scene.say(said("two"), message="and?")
    assert scene.fields(second)["state"] == "waiting"
    await scene.work()
    assert (scene.fields(first)["state"], scene.fields(second)["state"]) == ("done", "queued")
    await scene.work()
    assert [record["turn"] for record in await scene.log()] == [first] * 3 + [second] * 3
    said_before = [block["text"] for message in scene.model.requests[1].messages for block in message["content"]]
    assert said_before == ["hello", "one", "and?"]


async def test_a_turn_of_three_model_calls_and_two_tools_takes_seven_round_trips(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.turn, "OPENING_RIDES_S", 60.0)  # however busy this machine is
    before = _scripts_run(scene)
    await scene.say(calls("act a"), calls("act b"), said("ok"))
    assert await scene.work() == "done"
    assert _scripts_run(scene) - before == 7  # accept, claim, and five commits


def _scripts_run(scene: Scene) -> int:
    return int(scene.raw.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"])
