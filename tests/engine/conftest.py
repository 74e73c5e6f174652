from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.engine.scene import Scene, open_scene


@pytest.fixture
async def scene(redis_url: str) -> AsyncIterator[Scene]:
    async with open_scene(redis_url) as scene:
        yield scene
