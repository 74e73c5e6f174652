"""What every test stands on: a real Valkey of its own for each xdist worker, emptied before each test that uses it,
and an environment in which no variable of the person who runs the tests counts.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from loopengine.embedded import EmbeddedStore, ensure_embedded

REPOSITORY = Path(__file__).resolve().parent.parent
_PRODUCT_VARIABLES = ("LOOPENGINE_", "REDIS_URL", "RQ_", "ANTHROPIC_", "OPENAI_", "DEEPSEEK_")


@pytest.fixture(scope="session", autouse=True)
def _clean_environment() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(_PRODUCT_VARIABLES):
                patch.delenv(name)
        yield


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedStore]:
    """The server of this xdist worker. Tests that stop or kill a server start one of their own."""
    store = ensure_embedded(tmp_path_factory.mktemp("valkey"), fsync="everysec")
    yield store
    store.stop()


@pytest.fixture
def redis_url(valkey: EmbeddedStore) -> str:
    """URL of an empty Valkey."""
    with redis.Redis.from_url(valkey.url) as client:
        client.flushall()
    return valkey.url


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project directory of the test's own, with copies of the example agents in ``agents/``."""
    folder = tmp_path / "project"
    folder.mkdir()
    shutil.copytree(REPOSITORY / "agents", folder / "agents", ignore=shutil.ignore_patterns("__pycache__"))
    return folder
