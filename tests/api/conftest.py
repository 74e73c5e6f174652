from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from engine.settings import Settings
from loopengine.embedded import ensure_embedded
from tests.api.service import Desk, Service, running_api, settings_for, started_worker, write_clerk


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    write_clerk(tmp_path / "agents")
    return settings_for(tmp_path / "agents", heartbeat_s=0.2)


@pytest.fixture
async def api(redis_url: str, settings: Settings) -> AsyncIterator[Service]:
    """The API without any worker: turns are accepted and stay queued."""
    async with running_api(redis_url, settings) as service:
        yield service


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A store and a worker process that tests share, because a worker takes long to start. It is never emptied."""
    folder = tmp_path_factory.mktemp("desk")
    write_clerk(folder / "agents")
    store = ensure_embedded(folder / "valkey", fsync="everysec")
    with started_worker(store.url, folder / "agents"):
        yield Desk(store.url, folder / "agents")
    store.stop()


@pytest.fixture
async def served(desk: Desk) -> AsyncIterator[Service]:
    """The API with a worker process, as a tenant of the test's own."""
    settings = settings_for(desk.agents, heartbeat_s=0.2, tenant=f"t{secrets.token_hex(8)}")
    async with running_api(desk.redis_url, settings) as service:
        await service.workers(alive=True)
        yield service
