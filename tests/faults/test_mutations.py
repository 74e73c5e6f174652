"""The checker sees what each guard is for: with the guard a story keeps every promise, without it the same story is
reported under the promise that the guard holds.

Each length of a commit alone, and the place that claims leave between two suspects, are defence in depth: nothing
that can be seen from outside breaks without them, which is shown here for the lengths; what they are for is held by
tests/store/test_guards.py, on the scripts themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from engine import fold, loop
from engine.cancelling import Cancelling
from engine.plan import IT_HAPPENED, RUN_AGAIN
from engine.runtime import Decision
from engine.store.connection import SOURCE, client
from engine.store.store import Claim, Commit, Ending, new_token
from engine.turn import encoded
from protocol.errors import Conflict, Moved, NotFound, TurnLost
from protocol.json_text import dumps
from tests.engine.scene import TENANT, Hang, Scene, calls, open_scene, said
from tests.faults.checker import broken_promises
from tests.faults.evidence import gather
from tests.processes import eventually_async
from tests.store.desk import ChangedScripts
from tests.store.test_guards import (
    PARTS,
    a_lost_event_is_noticed,
    a_lost_record_is_noticed,
    a_second_suspect_is_left_alone,
)
from tests.workers.house import TENANT as HOUSE_TENANT, open_house
from workers.slots import TurnSlots


@dataclass
class Stage:
    """A scene, and what the story notes beside it for the checker."""

    scene: Scene
    deaths: int = 0
    lost: list[tuple[str, str, int]] = field(default_factory=list)
    told: list[dict[str, Any]] = field(default_factory=list)

    async def kill(self, worker: str) -> None:
        await self.scene.work_until_killed(worker)
        self.deaths += 1

    async def settle(self, item: str, decision: Decision, *, repeat: bool = False) -> bool:
        """Was it taken? What the client was told is noted."""
        answer: dict[str, Any] = {"did": "decide", "item": item, "digest": decision.digest or ""}
        try:
            decided = await self.scene.runtime.settle(TENANT, item, decision)
        except (Conflict, NotFound):
            self.told.append({"did": "refused", "item": item, "repeat": repeat})
            return False
        self.told.append(answer | {"decision": decided.decision})
        return True

    async def reported(self) -> set[int]:
        scene = self.scene
        said_it = {"did": "say", "turn": scene.turn_id, "message": "hello"}
        seen = await gather(
            scene.runtime, scene.raw, tenant=TENANT, sessions=["s"], ledger=await self._ledger(),
            answers=[said_it, *self.told], deaths=self.deaths, lost=self.lost,
        )  # fmt: skip
        return {number for number, _ in broken_promises(seen)}

    async def _ledger(self) -> list[dict[str, Any]]:
        """Every run of a tool from its beginning, also of those that hung until their worker was killed."""
        state = fold.fold(await self.scene.log(), self.scene.turn_id)
        lines = []
        for key in self.scene.keys_seen:
            call = state.call(key.removeprefix("T."))
            assert call
            line = {"what": "tool", "tool": call.tool, "args": call.args}
            lines.append(line | {"turn": self.scene.turn_id, "call": call.path})
        return lines


Story = Callable[[Stage], Awaitable[None]]


async def a_zombie_goes_on(stage: Stage) -> None:
    scene = stage.scene
    await scene.say(said("ok"), said("ok"))
    zombie = await scene.claim("w1")
    assert zombie
    await scene.release("w1")
    stage.deaths, stage.lost = 1, [(scene.turn_id, zombie.token[:8], zombie.n_events)]
    owner = await scene.claim("w2")
    assert owner
    for claim in (zombie, owner):
        with contextlib.suppress(TurnLost):
            await scene.run(claim)


async def a_cancel_has_read_what_is_old(stage: Stage) -> None:
    scene = stage.scene
    await scene.say(calls("act a"), said("ok"))
    claim = await scene.claim("w1")
    assert claim
    scene.hanging["act"] = 1
    working = asyncio.create_task(scene.run(claim))
    await scene.stuck.wait()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    try:
        await _cancel_as_of(scene, claim)
    except Moved:
        await scene.runtime.cancel(TENANT, "agent", "s")


async def _cancel_as_of(scene: Scene, read: Claim) -> None:
    draft = Cancelling._closing(read.fields, read.ref, [])
    records = [encoded(record | {"turn": scene.turn_id}) for record in draft.records]
    events = [dumps(event) for event in draft.events]
    ending = draft.ending or Ending("done")
    await scene.store.commit(
        scene.keys, Commit(read.ref, read.session, "", read.n_events, read.n_log, events, records, ending)
    )


async def other_arguments_are_decided_on(stage: Stage) -> None:
    await stage.scene.say(calls("pay a"), said("ok"))
    await stage.scene.work()
    item = await stage.scene.item()
    if not await stage.settle(item.id, Decision("approve", "ann", digest="e" * 32)):
        await stage.settle(item.id, Decision("approve", "ann", digest=item.card["digest"]))
    await stage.scene.work()


async def an_item_that_never_was_is_decided(stage: Stage) -> None:
    await stage.scene.say(calls("pay a"), said("ok"))
    await stage.scene.work()
    if not await stage.settle(f"{stage.scene.turn_id}.1.0.9", Decision("approve", "ann")):
        await stage.settle((await stage.scene.item()).id, Decision("approve", "ann"))
    await stage.scene.work()


async def a_decision_is_repeated(stage: Stage) -> None:
    await stage.scene.say(calls("pay a"), said("ok"))
    await stage.scene.work()
    item = (await stage.scene.item()).id
    await stage.settle(item, Decision("approve", "ann"))
    await stage.settle(item, Decision("approve", "ann"), repeat=True)
    await stage.scene.work()


async def an_effect_that_runs_again_is_interrupted_again(stage: Stage) -> None:
    scene = stage.scene
    await scene.say(calls("act a"), said("ok"))
    scene.hanging["act"] = 2
    await stage.kill("w1")
    assert await scene.work("w2") == "parked"
    await scene.decide("answer", RUN_AGAIN)
    await stage.kill("w3")
    if await scene.work("w4") == "parked":
        await scene.decide("answer", IT_HAPPENED)
        await scene.work("w5")


async def a_living_worker_is_taken_for_dead(stage: Stage) -> None:
    scene = stage.scene
    await scene.say(said("ok"))
    claim = await scene.claim("w1")
    assert claim
    await scene.store.connection.command("HINCRBY", scene.keys.beats, "w1", 1)
    if await scene.store.release(scene.keys, "w1", "1"):
        await scene.work("w2")
    else:
        await scene.run(claim)


async def every_worker_dies_of_it(stage: Stage) -> None:
    scene = stage.scene
    await scene.say(*[Hang()] * 4)
    for worker in ("w1", "w2", "w3"):
        await stage.kill(worker)
    if stage.deaths < loop.MOST_DEATHS:
        await stage.kill("w4")
    else:
        assert await scene.work("w4") == "done"


def _no_use(state: fold.State, record: dict[str, Any]) -> None:
    """An intent that does not use up the decision it was made on."""
    for intent in record["calls"]:
        if call := state.call(intent["at"]):
            call.started = record["claim"]
            call.intents += 1


def _without(script: str, text: str) -> dict[str, bytes]:
    source = SOURCE[script].decode()
    assert source.count(text) == 1, (script, text)
    return {script: source.replace(text, "").encode()}


EVENTS = "first ~= tonumber(ARGV[4]) or "
LOG = " or redis.call('LLEN', KEYS[3]) ~= tonumber(ARGV[5])"
BOTH = f"if first ~= tonumber(ARGV[4]){LOG} then return {{'MOVED'}} end"
TOKEN = "if token ~= '' and (state ~= 'running' or f[2] ~= token) then return {'FENCED'} end"
DIGEST = "if ARGV[5] ~= '' and ARGV[5] ~= f[4] then return {'DIGEST', f[4]} end"
ITEM = "if state ~= 'parked' or f[2] ~= ARGV[3] then return {'GONE'} end"
WON = "if fingerprint == ARGV[4] then return {'SAME', decision, redis.call('XLEN', KEYS[4])} end"
COUNTER = "if (redis.call('HGET', KEYS[2], worker) or '') ~= seen then return {} end"

SCRIPT_MUTANTS = [
    pytest.param("commit", TOKEN, a_zombie_goes_on, {9}, id="claim token"),
    pytest.param("commit", BOTH, a_cancel_has_read_what_is_old, {2}, id="both lengths"),
    pytest.param("commit", EVENTS, a_cancel_has_read_what_is_old, set(), id="event length: the log's is there still"),
    pytest.param("commit", LOG, a_cancel_has_read_what_is_old, set(), id="log length: the events' is there still"),
    pytest.param("settle", DIGEST, other_arguments_are_decided_on, {5}, id="digest"),
    pytest.param("settle", ITEM, an_item_that_never_was_is_decided, {6}, id="item state"),
    pytest.param("settle", WON, a_decision_is_repeated, {6}, id="the first decision wins"),
    pytest.param("release", COUNTER, a_living_worker_is_taken_for_dead, {1}, id="moved counter"),
]


@asynccontextmanager
async def staged(redis_url: str, changed: dict[str, bytes]) -> AsyncIterator[Stage]:
    async with open_scene(redis_url) as scene:
        plain, scene.store.connection = scene.store.connection, ChangedScripts(client(redis_url), changed)
        try:
            yield Stage(scene)
        finally:
            await scene.store.connection.aclose()
            scene.store.connection = plain


@pytest.mark.parametrize(("script", "guard", "story", "reported"), SCRIPT_MUTANTS)
async def test_a_script_without_its_guard_is_reported(
    redis_url: str, script: str, guard: str, story: Story, reported: set[int]
) -> None:
    async with staged(redis_url, {}) as stage:
        await story(stage)
        assert await stage.reported() == set()
        stage.scene.raw.flushall()
    async with staged(redis_url, _without(script, guard)) as stage:
        await story(stage)
        assert reported <= await stage.reported()
        assert reported or await stage.reported() == set()


@pytest.mark.parametrize(
    ("where", "name", "instead", "story", "reported"),
    [
        pytest.param(fold._HANDLERS, "started", _no_use, an_effect_that_runs_again_is_interrupted_again, 4, id="use"),
        pytest.param(loop.__dict__, "MOST_DEATHS", 99, every_worker_dies_of_it, 1, id="deaths"),
    ],
)
async def test_an_engine_without_its_guard_is_reported(
    redis_url: str, monkeypatch: pytest.MonkeyPatch, where: Any, name: str, instead: Any, story: Story, reported: int
) -> None:
    async with staged(redis_url, {}) as stage:
        await story(stage)
        assert await stage.reported() == set()
        stage.scene.raw.flushall()
    monkeypatch.setitem(where, name, instead)
    async with staged(redis_url, {}) as stage:
        await story(stage)
        assert reported in await stage.reported()


@pytest.mark.parametrize("compares", [True, False])
async def test_a_worker_that_does_not_look_for_its_own_orphans_is_reported(
    redis_url: str, monkeypatch: pytest.MonkeyPatch, compares: bool
) -> None:
    rounds = 0

    async def look_away(slots: TurnSlots) -> None:
        nonlocal rounds
        rounds += 1

    if not compares:
        monkeypatch.setattr(TurnSlots, "_compare", look_away)
    async with open_house(redis_url) as house:
        slots = await house.slots("w1")
        turn_id = await house.say("plain")
        # The reply of this claim is lost on its way to w1.
        await house.store.claim(house.keys, "w1", new_token(), tenant_limit=0, suspects=True)
        assert house.field(turn_id) == "running"

        async def looked() -> bool:
            return rounds >= 5 or house.field(turn_id) == "queued"

        await eventually_async(looked)
        if compares:
            await slots.pump()
        seen = await gather(house.runtime, house.raw, tenant=HOUSE_TENANT, sessions=["s"])
    assert {number for number, _ in broken_promises(seen)} == (set() if compares else {1, 12})


def test_what_is_defence_in_depth_is_held_on_the_scripts_themselves() -> None:
    held = {promise for _, _, _, promise in PARTS}
    assert {a_lost_event_is_noticed, a_lost_record_is_noticed, a_second_suspect_is_left_alone} <= held
