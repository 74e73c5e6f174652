"""The slots of a worker: what they claim, run, compare, give back, and what they leave when they go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest
from structlog.testing import capture_logs

from engine.records import VERSION
from engine.settings import Settings
from engine.store import keys as k
from engine.store.store import Claim, Commit, Ending, new_token
from protocol.errors import StoreUnsuitable
from tests.processes import eventually_async
from tests.workers.house import TENANT, House, Registry, open_house
from workers.slots import TurnSlots, open_slots


@pytest.fixture(params=[1, 3], ids=["one-partition", "three-partitions"])
async def house(request: pytest.FixtureRequest, redis_url: str) -> AsyncIterator[House]:
    async with open_house(redis_url, request.param) as house:
        yield house


async def test_a_pump_without_anything_due_is_over_at_once(house: House) -> None:
    slots = await house.slots()
    await slots.pump()
    assert slots.free() == 100


async def test_a_pump_takes_what_is_due_and_lasts_until_it_has_ended(house: House) -> None:
    slots = await house.slots()
    turns = [await house.say("plain", f"s{number}") for number in range(5)]
    await slots.pump()
    assert [house.field(turn) for turn in turns] == ["done"] * 5
    assert slots.free() == 100


async def test_slots_are_filled_up_to_the_concurrency_and_an_empty_one_claims_the_next_without_a_job(
    house: House,
) -> None:
    slots = await house.slots(LOOPENGINE_CONCURRENCY=2)
    turns = [await house.say("hold", f"s{number}") for number in range(3)]
    pump = asyncio.create_task(slots.pump())
    await house.holds(2)
    assert slots.free() == 0
    assert sorted(house.field(turn) or "" for turn in turns) == ["queued", "running", "running"]
    house.gate.set()
    await pump
    assert [house.field(turn) for turn in turns] == ["done"] * 3
    assert sorted(house.ran) == sorted(turns)


async def test_the_next_turn_of_a_session_follows_in_the_same_slot(house: House) -> None:
    slots = await house.slots(LOOPENGINE_CONCURRENCY=1)
    turns = [await house.say("plain") for _ in range(3)]
    await slots.pump()
    assert [house.field(turn) for turn in turns] == ["done"] * 3


async def _hold_one(house: House, slots: TurnSlots) -> tuple[str, asyncio.Task[None]]:
    turn = await house.say("hold")
    pump = asyncio.create_task(slots.pump())
    await house.holds(1)
    return turn, pump


async def test_draining_finishes_the_running_step_gives_the_turn_back_and_takes_the_beat_away(house: House) -> None:
    slots = await house.slots()
    turn, pump = await _hold_one(house, slots)
    draining = asyncio.create_task(slots.drain(grace_s=60))
    await _drains(slots)
    house.gate.set()
    await draining
    await pump
    assert house.ran == [turn]
    assert (house.field(turn), house.field(turn, "deaths")) == ("queued", "0")
    assert "shutting down" in (house.field(turn, "note") or "")
    assert [house.raw.exists(keys.beats) for keys in house.store.partitions] == [0] * house.partitions
    assert house.wake_ups() >= 1

    other = await house.slots("w2")
    await other.pump()
    assert house.field(turn) == "done"
    assert house.ran == [turn]
    view = await house.runtime.turn(TENANT, turn)
    assert view.item is None


async def _drains(slots: TurnSlots) -> None:
    async def is_so() -> bool:
        return slots.free() == 0

    await eventually_async(is_so)


async def test_a_turn_that_is_given_back_has_no_intent_on_record_that_never_began(house: House) -> None:
    slots = await house.slots()
    turn = await house.say("slow act")
    pump = asyncio.create_task(slots.pump())

    async def asked() -> bool:
        return bool(house.asked)

    await eventually_async(asked)
    draining = asyncio.create_task(slots.drain(grace_s=60))
    await _drains(slots)
    house.gate.set()
    await draining
    await pump
    assert house.field(turn) == "queued"
    assert "started" not in {orjson.loads(record)["t"] for record in house.records()}

    await (await house.slots("w2")).pump()
    assert house.field(turn) == "done"  # and not parked with a question about an unknown outcome
    assert house.ran == [turn]


async def test_what_lasts_longer_than_the_grace_is_cancelled_and_left_to_the_others_as_nobody_s_fault(
    house: House,
) -> None:
    slots = await house.slots()
    turn, pump = await _hold_one(house, slots)
    await slots.drain(grace_s=0.01)
    await pump
    assert (house.field(turn), house.field(turn, "deaths")) == ("queued", "0")

    async def told() -> bool:
        return house.told_to_stop == [turn]

    await eventually_async(told)
    await (await house.slots("w2")).pump()
    assert house.field(turn) == "parked"
    item = (await house.runtime.turn(TENANT, turn)).item
    assert item
    assert item.is_outcome


async def test_a_draining_worker_claims_nothing(house: House) -> None:
    slots = await house.slots()
    await slots.drain(0)
    turn = await house.say("plain")
    await slots.pump()
    assert (slots.free(), house.field(turn)) == (0, "queued")


@pytest.mark.parametrize("how", ["crash", "panic"])
async def test_a_task_that_crashes_counts_as_a_death_and_after_three_the_turn_ends(house: House, how: str) -> None:
    slots = await house.slots()
    turn = await house.say(how)
    with capture_logs() as logs:
        await slots.pump()
    assert [line["turn"] for line in logs if line["event"] == "turn crashed"] == [turn] * 3
    assert house.asked == [how] * 3
    view = await house.runtime.turn(TENANT, turn)
    assert (view.state, view.stop_reason) == ("done", "error")
    assert "3 workers in a row" in (view.error or "")


async def test_a_cancelled_turn_s_tool_is_told_to_stop_and_its_slot_is_free_again(house: House) -> None:
    slots = await house.slots()
    turn, pump = await _hold_one(house, slots)
    assert await house.runtime.cancel(TENANT, "agent", "s") == turn
    await pump
    assert house.told_to_stop == [turn]
    assert slots.free() == 100
    assert (await house.runtime.turn(TENANT, turn)).stop_reason == "cancelled"


async def test_a_claim_whose_reply_was_lost_is_given_back_and_is_nobody_s_death(house: House) -> None:
    turn = await house.say("plain")
    await house.slots("w1")
    house.raw.delete("rq:queue:loopengine")
    claim = await house.store.claim(house.keys, "w1", new_token(), tenant_limit=0, suspects=True)
    assert isinstance(claim, Claim)
    await house.becomes(turn, "queued")
    assert house.field(turn, "deaths") == "0"

    async def woken() -> bool:
        return house.wake_ups() == 1

    await eventually_async(woken)


async def test_a_turn_of_an_agent_that_is_not_here_is_given_back_with_the_reason(house: House) -> None:
    registry = Registry(house.agent)
    registry.forget()
    slots = await house.slots(registry=registry)
    turn = await house.say("plain")
    await slots.pump()
    view = await house.runtime.turn(TENANT, turn)
    assert view.state == "queued"
    assert "no worker could run it yet: there is no agent named 'agent'" in (view.note or "")
    seconds, _ = house.raw.time()
    due_ms = house.raw.zscore(house.keys.ready, k.tenant_hash(TENANT))
    assert 3000 < due_ms - seconds * 1000 <= 6000

    house.make_due()
    await (await house.slots("w2")).pump()
    assert house.field(turn) == "done"


async def test_a_turn_with_a_record_of_a_newer_version_is_given_back_with_the_reason(house: House) -> None:
    turn = await house.say("plain")
    house.raw.hincrby(house.keys.beats, "newer", 1)
    claim = await house.store.claim(house.keys, "newer", new_token(), tenant_limit=0, suspects=True)
    assert isinstance(claim, Claim)
    record = orjson.dumps({"t": "dreamt", "v": VERSION + 1, "turn": turn})
    commit = Commit(claim.ref, claim.session, claim.token, claim.n_events, 0, (), (record,), Ending("queue"))
    await house.store.commit(house.keys, commit)
    await (await house.slots()).pump()
    view = await house.runtime.turn(TENANT, turn)
    assert view.state == "queued"
    assert f"version {VERSION + 1}" in (view.note or "")


async def _lose_owner(house: House, *turns: str) -> None:
    """The turns were run by a worker that is dead."""
    house.raw.hincrby(house.keys.beats, "dead", 1)
    for _ in turns:
        await house.store.claim(house.keys, "dead", new_token(), tenant_limit=0, suspects=True)
    assert len(await house.store.release(house.keys, "dead", "1")) == len(turns)
    assert [house.field(turn, "deaths") for turn in turns] == ["1"] * len(turns)


async def test_of_turns_that_may_have_killed_their_worker_one_runs_at_a_time_beside_the_others(house: House) -> None:
    suspects = [await house.say("slow act", f"s{number}") for number in range(2)]
    await _lose_owner(house, *suspects)
    healthy = await house.say("plain", "other")
    slots = await house.slots()
    pump = asyncio.create_task(slots.pump())
    await house.becomes(healthy, "done")
    assert sorted(house.field(turn) or "" for turn in suspects) == ["queued", "running"]
    house.gate.set()
    await pump
    assert [house.field(turn) for turn in suspects] == ["done", "done"]


async def test_a_suspect_that_made_progress_keeps_no_other_waiting(house: House) -> None:
    suspects = [await house.say("hold", f"s{number}") for number in range(2)]
    await _lose_owner(house, *suspects)
    slots = await house.slots()
    pumps = [asyncio.create_task(slots.pump())]
    await house.holds(1)  # the first one has had its model's answer
    pumps.append(asyncio.create_task(slots.pump()))
    await house.holds(2)
    house.gate.set()
    await asyncio.gather(*pumps)


async def test_a_worker_that_was_wrongly_taken_for_dead_stops_and_writes_nothing(house: House) -> None:
    slots = await house.slots("w1")
    turn, pump = await _hold_one(house, slots)
    assert await house.store.release(house.keys, "w1", "own", deaths=1, own=[k.turn_ref(TENANT, turn)])
    await pump
    assert house.told_to_stop == [turn]
    # Its free slot claimed the turn again: by now that is a claim like any other, and the effect of unknown outcome.
    assert house.field(turn) == "parked"
    assert [orjson.loads(record)["t"] for record in house.records()] == ["turn", "model", "started", "asked"]


async def test_opening_with_another_number_of_partitions_is_refused(house: House, tmp_path: Path) -> None:
    settings = Settings.model_validate({"LOOPENGINE_PARTITIONS": 7, "LOOPENGINE_AGENTS_DIR": tmp_path})
    with pytest.raises(StoreUnsuitable):
        await open_slots(settings, redis_url=house.url, worker="w1")
