"""A worker that is told to stop does so, whatever has become of its store."""

from __future__ import annotations

import signal
from pathlib import Path

from loopengine.embedded import ensure_embedded
from tests.processes import kill, running_product


def test_a_worker_whose_redis_is_gone_still_ends_when_it_is_told_to(project: Path, tmp_path: Path) -> None:
    store = ensure_embedded(tmp_path / "store", fsync="no")
    with running_product(["worker"], tmp_path / "log", cwd=project, env={"REDIS_URL": store.url}) as worker:
        worker.wait_for_output("worker started")
        kill(store.pid)
        worker.signal(signal.SIGTERM)
        assert worker.wait(30) == 0, worker.output
        assert "left to the others' sweep" in worker.output
