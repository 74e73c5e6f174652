"""One long-lived process for all cells of this xdist worker: it has everything imported and no threads, so it can
fork workers and clients in milliseconds.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from loopengine.embedded import EmbeddedStore
from tests.processes import REPOSITORY

Play = Callable[[str, int], tuple[list[str], list[str]]]


@pytest.fixture(scope="session")
def play(valkey: EmbeddedStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    """Plays all cells of a scenario; its writes and what was wrong."""
    folder = tmp_path_factory.mktemp("faults")
    with (folder / "log").open("ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.faults", "serve", valkey.url, str(folder / "run")],
            cwd=folder, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True,
        )  # fmt: skip
    assert child.stdin
    assert child.stdout
    stdin, stdout = child.stdin, child.stdout

    def ask(name: str, repeat: int) -> tuple[list[str], list[str]]:
        stdin.write(json.dumps([name, repeat]) + "\n")
        stdin.flush()
        answer = stdout.readline()
        assert answer, (folder / "log").read_text()
        writes, problems = json.loads(answer)
        return writes, problems

    yield ask
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    stdin.close()
    stdout.close()
