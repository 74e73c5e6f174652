"""The sweep: turns of dead workers go back into the line, and somebody is woken for what is due."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from engine.store.store import Ending
from tests.store.desk import DONE, PARK, Desk, open_desk
from workers import sweep as sweep_module
from workers.sweep import Sweep


@dataclass
class Watching:
    """A sweep of the worker "sweeper" with a lease of 5 s, on a clock that the test moves."""

    desk: Desk
    now: float = 0.0
    woken: list[str] = field(default_factory=list)
    sweep: Sweep = field(init=False)

    def __post_init__(self) -> None:
        async def wake(about: str) -> None:
            self.woken.append(about)

        self.sweep = Sweep(self.desk.store, "sweeper", 5.0, wake)

    async def rounds(self, count: int, every_s: float = 1.0) -> None:
        for _ in range(count):
            await self.sweep.round()
            self.now += every_s


@pytest.fixture
def events_are_opaque() -> bool:
    return True


@pytest.fixture(params=[1, 3], ids=["one-partition", "three-partitions"])
async def watching(
    request: pytest.FixtureRequest, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Watching]:
    async with open_desk(redis_url, request.param) as desk:
        watching = Watching(desk)
        monkeypatch.setattr(sweep_module, "time", SimpleNamespace(monotonic=lambda: watching.now))
        yield watching


async def test_a_dead_worker_s_turn_is_released_after_a_lease_of_watching(watching: Watching) -> None:
    await watching.desk.running()
    await watching.rounds(5)
    assert watching.desk.state() == "running"
    await watching.rounds(1)
    assert (watching.desk.state(), watching.desk.field("deaths")) == ("queued", "1")
    assert watching.woken[0] == "t_1"
    assert watching.desk.raw.exists(watching.desk.keys().beats) == 0


async def test_a_sweeper_that_was_away_itself_starts_watching_anew(watching: Watching) -> None:
    await watching.desk.running()
    await watching.rounds(5)
    watching.now += 60
    await watching.rounds(5)
    assert watching.desk.state() == "running"
    await watching.rounds(1)
    assert watching.desk.state() == "queued"


async def test_a_worker_that_beats_keeps_its_turns(watching: Watching) -> None:
    await watching.desk.running()
    for _ in range(20):
        watching.desk.beat("w")
        await watching.rounds(1)
    assert watching.desk.state() == "running"
    assert watching.woken == []


async def test_a_worker_that_beats_once_more_before_it_is_released_keeps_its_turns(
    watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    await watching.desk.running()
    await watching.rounds(5)
    release = watching.desk.store.release

    async def after_a_late_beat(*args: object, **named: object) -> list[str]:
        watching.desk.beat("w")
        return await release(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(watching.desk.store, "release", after_a_late_beat)
    await watching.rounds(1)
    assert watching.desk.state() == "running"


async def test_the_sweeper_does_not_declare_itself_dead(watching: Watching) -> None:
    await watching.desk.accept()
    await watching.desk.claim("sweeper")
    await watching.rounds(20)
    assert watching.desk.state() == "running"


async def test_turns_of_a_worker_without_a_counter_are_released_at_once(watching: Watching) -> None:
    await watching.desk.running()
    watching.desk.raw.hdel(watching.desk.keys().beats, "w")
    await watching.rounds(1)
    assert (watching.desk.state(), watching.desk.field("deaths")) == ("queued", "1")


async def test_the_counter_of_a_dead_worker_without_turns_is_cleared_away(watching: Watching) -> None:
    await watching.desk.finished()
    await watching.rounds(6)
    assert watching.desk.raw.exists(watching.desk.keys().beats, watching.desk.keys().claims) == 0


async def test_two_sweepers_count_one_death(watching: Watching) -> None:
    await watching.desk.running()
    other = Watching(watching.desk)
    for _ in range(6):
        other.now = watching.now
        await other.sweep.round()
        await watching.rounds(1)
    assert watching.desk.field("deaths") == "1"


async def test_somebody_is_woken_for_a_turn_that_is_due(watching: Watching) -> None:
    await watching.desk.accept()
    await watching.rounds(1)
    assert len(watching.woken) == 1


async def test_a_delayed_turn_wakes_somebody_when_its_time_has_come(watching: Watching) -> None:
    desk = watching.desk
    claim = await desk.running()
    await desk.commit(claim, Ending("queue", 3_600_000, "waiting for the provider"))
    await watching.rounds(1)
    assert watching.woken == []
    desk.let_expire()
    await watching.rounds(1)
    assert len(watching.woken) == 1


async def test_an_expired_item_wakes_somebody_to_close_it(watching: Watching) -> None:
    await watching.desk.expired()
    await watching.rounds(1)
    assert len(watching.woken) == 1


@pytest.mark.parametrize("ending", [PARK, DONE], ids=["parked", "done"])
async def test_nobody_is_woken_for_what_waits_for_a_person_or_has_ended(watching: Watching, ending: Ending) -> None:
    claim = await watching.desk.running()
    await watching.desk.commit(claim, ending)
    for _ in range(10):
        watching.desk.beat("w")
        await watching.rounds(1)
    assert watching.woken == []


async def test_every_partition_is_swept(redis_url: str) -> None:
    async with open_desk(redis_url, 3) as desk:
        watching = Watching(desk)
        tenants = ("acme", "bolt", "core", "dust")
        for tenant in tenants:
            await desk.accept(tenant=tenant)
            await desk.claim("w", f"token-of-{tenant}-000"[:16], tenant)
            desk.raw.hdel(desk.keys(tenant).beats, "w")
        await watching.rounds(1)
        assert [desk.state(tenant=tenant) for tenant in tenants] == ["queued"] * 4
