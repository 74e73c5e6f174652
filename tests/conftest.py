"""What every test stands on: a real Valkey of its own for each xdist worker, emptied before each test that uses it,
an environment in which no variable of the person who runs the tests counts, and the schema that every event keeps.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from loopengine.embedded import EmbeddedStore, ensure_embedded
from tests.event_schema import problems_in, watching_the_store

REPOSITORY = Path(__file__).resolve().parent.parent
_PRODUCT_VARIABLES = ("LOOPENGINE_", "REDIS_URL", "RQ_", "ANTHROPIC_", "OPENAI_", "DEEPSEEK_")


@pytest.fixture(scope="session", autouse=True)
def _clean_environment() -> Iterator[None]:
    with (
        pytest.MonkeyPatch.context() as patch,
        # Where sockets go whose folder's path is too long; their servers may be killed and cannot clean up.
        tempfile.TemporaryDirectory(prefix="loop-", ignore_cleanup_errors=True) as sockets,
    ):
        patch.setenv("XDG_RUNTIME_DIR", sockets)
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
def events_are_opaque() -> bool:
    """Tests of the store alone say True: to it an event is bytes, and theirs are none of the protocol's."""
    return False


@pytest.fixture
def redis_url(valkey: EmbeddedStore, events_are_opaque: bool) -> Iterator[str]:
    """URL of an empty Valkey. Every event that the test leaves there must be one of the protocol."""
    with redis.Redis.from_url(valkey.url) as client:
        client.flushall()
        yield valkey.url
        assert events_are_opaque or problems_in(client) == []


@pytest.fixture(autouse=True)
def _events_keep_to_the_schema(events_are_opaque: bool) -> Iterator[None]:
    """Also those that are gone when the test ends, or lie in another store, if this process writes them."""
    with watching_the_store() as problems:
        yield
    assert events_are_opaque or problems == []


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project directory of the test's own, with copies of the example agents in ``agents/``."""
    folder = tmp_path / "project"
    folder.mkdir()
    shutil.copytree(REPOSITORY / "agents", folder / "agents", ignore=shutil.ignore_patterns("__pycache__"))
    return folder
