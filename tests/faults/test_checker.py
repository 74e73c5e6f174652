"""The checker has nothing to say about a turn as it should be, and names the promise when one thing is changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from engine.runtime import Decision
from protocol.json_text import digest_of
from tests.engine.scene import TENANT, calls, open_scene, said
from tests.faults.checker import broken_promises
from tests.faults.evidence import Evidence, gather


async def seen_in_order(redis_url: str) -> Evidence:
    """An effect, an approved effect, an answer."""
    async with open_scene(redis_url) as scene:
        await scene.say(calls("act a"), calls("pay b"), said("ok"))
        await scene.work()
        item = await scene.item()
        digest = item.card["digest"]
        assert digest == digest_of("pay", {"what": "b"})
        decided = await scene.runtime.settle(TENANT, item.id, Decision("approve", "ann", digest=digest))
        await scene.work()
        turn = scene.turn_id
        answers = [
            {"did": "say", "turn": turn, "message": "hello"},
            {"did": "decide", "item": item.id, "digest": digest, "decision": decided.decision},
        ]
        asks: list[dict[str, Any]] = [
            {"what": "model", "message": "hello", "step": step, "problem": None} for step in range(3)
        ]
        act: dict[str, Any] = {"what": "tool", "tool": "act", "args": {"what": "a"}, "turn": turn, "call": "1.0"}
        pay: dict[str, Any] = {"what": "tool", "tool": "pay", "args": {"what": "b"}, "turn": turn, "call": "2.0"}
        ledger = [asks[0], act, asks[1], pay, asks[2]]
        return await gather(
            scene.runtime, scene.raw, tenant=TENANT, sessions=["s"], ledger=ledger, answers=answers
        )  # fmt: skip


Change = Callable[[Evidence], None]


def _turn(seen: Evidence) -> str:
    return next(iter(seen.turns))


def _lose_done(seen: Evidence) -> None:
    seen.turns[_turn(seen)].entries.pop()


def _leave_it_queued(seen: Evidence) -> None:
    seen.turns[_turn(seen)].state = "queued"


def _lose_an_event(seen: Evidence) -> None:
    del seen.turns[_turn(seen)].entries[3]


def _mix_turns(seen: Evidence) -> None:
    seen.logs["s"].insert(2, {**seen.logs["s"][-1], "turn": "t_other"})


def _act_again(seen: Evidence) -> None:
    seen.ledger = [*seen.ledger, seen.ledger[1]]


def _nobody_allowed(seen: Evidence) -> None:
    seen.logs["s"] = [record for record in seen.logs["s"] if record["t"] != "decided"]


def _other_arguments(seen: Evidence) -> None:
    seen.ledger = [*seen.ledger[:3], {**seen.ledger[3], "args": {"what": "more"}}, seen.ledger[4]]


def _decide_again(seen: Evidence) -> None:
    decided = next(record for record in seen.logs["s"] if record["t"] == "decided")
    seen.logs["s"].append(decided)


def _a_second_result(seen: Evidence) -> None:
    seen.logs["s"].append(next(record for record in seen.logs["s"] if record["t"] == "result"))


def _a_bad_request(seen: Evidence) -> None:
    seen.ledger = [{**seen.ledger[0], "problem": "two messages of one role"}, *seen.ledger[1:]]


def _pay_twice_for_an_answer(seen: Evidence) -> None:
    seen.ledger = [*seen.ledger, seen.ledger[0]]


def _a_zombie_writes(seen: Evidence) -> None:
    turn = seen.turns[_turn(seen)]
    turn.entries[-1] = replace(turn.entries[-1], writer=turn.entries[1].writer)


def _lose_the_turn(seen: Evidence) -> None:
    seen.turns[_turn(seen)].state = None
    seen.turns[_turn(seen)].entries = []


def _show_it(seen: Evidence) -> None:
    seen.foreign.append(_turn(seen))


def _hold_a_place(seen: Evidence) -> None:
    seen.busy.append(_turn(seen))


@pytest.mark.parametrize(
    ("number", "change"),
    [
        (1, _lose_done),
        (1, _leave_it_queued),
        (2, _lose_an_event),
        (3, _mix_turns),
        (4, _act_again),
        (5, _nobody_allowed),
        (5, _other_arguments),
        (6, _decide_again),
        (7, _a_second_result),
        (7, _a_bad_request),
        (8, _pay_twice_for_an_answer),
        (9, _a_zombie_writes),
        (10, _lose_the_turn),
        (11, _show_it),
        (12, _hold_a_place),
    ],
)
async def test_a_change_is_reported_under_its_promise(redis_url: str, number: int, change: Change) -> None:
    seen = await seen_in_order(redis_url)
    assert broken_promises(seen) == []
    change(seen)
    assert number in {broken for broken, _ in broken_promises(seen)}
