"""The beat: a counter that moves as long as the worker can do its work, whatever its event loop is busy with."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from structlog.testing import capture_logs

from engine.store.keys import Keys
from loopengine.embedded import EmbeddedStore, ensure_embedded
from tests.processes import eventually, eventually_async, kill
from workers import beat as beat_module
from workers.beat import Beat

PARTITIONS = [Keys(number) for number in range(3)]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beat_module, "BEAT_S", 0.01)


class Counters:
    def __init__(self, url: str) -> None:
        self.raw: Any = redis.Redis.from_url(url)

    def now(self) -> list[int]:
        return [int(self.raw.hget(keys.beats, "w") or 0) for keys in PARTITIONS]

    def moves(self) -> Callable[[], bool]:
        """Has every counter moved since this call?"""
        before = self.now()
        return lambda: all(new > old for new, old in zip(self.now(), before, strict=True))

    def stands_still(self) -> bool:
        """Twenty beats' time without a beat."""
        before = self.now()
        time.sleep(20 * beat_module.BEAT_S)
        return self.now() == before


@pytest.fixture
def counters(redis_url: str) -> Iterator[Counters]:
    counters = Counters(redis_url)
    yield counters
    counters.raw.close()


@pytest.fixture
async def beat(redis_url: str, counters: Counters) -> AsyncIterator[Beat]:
    beat = Beat(redis_url, PARTITIONS, "w")
    yield beat
    await beat.stop()


async def test_the_first_beat_is_acknowledged_before_anything_is_claimed(beat: Beat, counters: Counters) -> None:
    assert not beat.is_steady()
    await beat.start()
    assert beat.is_steady()
    assert all(count >= 1 for count in counters.now())


async def test_every_partition_sees_the_counter_move(beat: Beat, counters: Counters) -> None:
    await beat.start()
    moved = counters.moves()
    await asyncio.to_thread(eventually, moved)


async def test_a_blocked_event_loop_does_not_stop_the_beat_at_once(beat: Beat, counters: Counters) -> None:
    await beat.start()
    eventually(counters.moves())  # in the loop's own thread: the loop is blocked meanwhile


async def test_a_loop_that_is_blocked_for_long_is_named_lost_and_found_again(
    beat: Beat, counters: Counters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beat_module, "LOOP_SLOW_S", 0.3)
    monkeypatch.setattr(beat_module, "LOOP_LOST_S", 0.5)
    with capture_logs() as logs:
        await beat.start()

        def a_tool_that_blocks() -> None:
            eventually(counters.stands_still)

        a_tool_that_blocks()
        await asyncio.to_thread(eventually, counters.moves())
    blocked = [line for line in logs if line["event"] == "the event loop is blocked"]
    assert blocked
    assert any("stands_still" in line["by"] or "eventually" in line["by"] for line in blocked)


async def test_a_stopped_beat_stands_still(beat: Beat, counters: Counters) -> None:
    await beat.start()
    await beat.stop()
    assert counters.stands_still()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedStore]:
    server = ensure_embedded(tmp_path / "server", fsync="no")
    yield server
    server.stop()


async def test_without_an_acknowledged_beat_no_new_effect_begins_until_redis_is_back(
    server: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    beat = Beat(server.url, PARTITIONS, "w")
    await beat.start()
    await beat.steady()
    monkeypatch.setattr(beat_module, "STEADY_S", 0.3)
    kill(server.pid)

    async def unsteady() -> bool:
        return not beat.is_steady()

    await eventually_async(unsteady)
    beginning = asyncio.create_task(beat.steady())
    done, _ = await asyncio.wait((beginning,), timeout=0.2)
    assert not done
    await asyncio.to_thread(server.revive)
    await asyncio.wait_for(beginning, 20)
    await beat.stop()
