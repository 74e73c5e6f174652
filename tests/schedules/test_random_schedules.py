"""A short run of the random schedules; `python -m tests.schedules 0 300` makes a long one."""

from __future__ import annotations

import pytest

from tests.schedules.run import Schedule


@pytest.mark.parametrize("seed", range(12))
async def test_no_schedule_of_faults_breaks_a_promise(seed: int, redis_url: str) -> None:
    world = await Schedule(seed, redis_url).run()
    assert world.ledger


@pytest.mark.parametrize("seed", range(1000, 1004))
async def test_a_store_that_forgets_its_latest_writes_leaves_no_turn_stuck(seed: int, redis_url: str) -> None:
    await Schedule(seed, redis_url, forgetful=True).run()
