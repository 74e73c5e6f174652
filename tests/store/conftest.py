from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.store.desk import Desk, open_desk


@pytest.fixture
def events_are_opaque() -> bool:
    return True


@pytest.fixture(params=[1, 3], ids=["one-partition", "three-partitions"])
async def desk(request: pytest.FixtureRequest, redis_url: str) -> AsyncIterator[Desk]:
    async with open_desk(redis_url, request.param) as desk:
        yield desk


@pytest.fixture
async def one(redis_url: str) -> AsyncIterator[Desk]:
    """A desk for what has nothing to do with partitions."""
    async with open_desk(redis_url) as desk:
        yield desk
