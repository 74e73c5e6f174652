"""The product as it is run: a Valkey, one API process, worker processes, all started and ended here.

The processes are those of a deployment: the API answers real HTTP, workers take RQ's jobs, everything durable is in
the store. ``python -m tests.bench`` is their only client.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen

from loopengine.embedded import Fsync, ensure_embedded
from tests.bench.agents_folder import write_agents
from tests.processes import Process, eventually, running

READY_S = 60.0
_PROGRAMS = [sys.executable, "-m", "tests.bench.programs"]


@dataclass
class Product:
    """``folder`` holds the agents and the logs of the processes."""

    folder: Path
    agents: Path
    redis_url: str
    fsync: Fsync
    base_url: str = ""
    workers: list[Process] = field(default_factory=list)
    _stack: ExitStack = field(default_factory=ExitStack)

    def add_worker(self, *, concurrency: int | None = None, processes: int = 1) -> Process:
        """Start one more worker (with ``processes`` above 1: a supervisor and that many); it is ready on return."""
        number = len(self.workers) + 1
        env = {"LOOPENGINE_CONCURRENCY": str(concurrency)} if concurrency else {}
        if processes > 1:
            env["LOOPENGINE_PROCESSES"] = str(processes)
        worker = self._start("worker", f"worker-{number}.log", env)
        eventually(lambda: worker.output.count("worker started") >= processes, READY_S)
        # The API looks for workers once a second, and does not wait for turns while it knows of none.
        eventually(lambda: b'"workersAlive":true' in urlopen(f"{self.base_url}/readyz").read(), READY_S)
        self.workers.append(worker)
        return worker

    def start_api(self) -> None:
        line = self._start("api", "api.log", {}).wait_for_output("listening on ", READY_S)
        self.base_url = line.rpartition("listening on ")[2].strip()

    def _start(self, program: str, log: str, env: dict[str, str]) -> Process:
        env = {
            "REDIS_URL": self.redis_url,
            "LOOPENGINE_AGENTS_DIR": str(self.agents),
            "LOOPENGINE_PORT": "0",
            "LOOPENGINE_LOG_LEVEL": "warning" if program == "api" else "info",
            **env,
        }
        command = [*_PROGRAMS, program]
        return self._stack.enter_context(running(command, self.folder / log, cwd=self.folder, env=env))


@contextmanager
def started(folder: Path, fsync: Fsync) -> Iterator[Product]:
    """A store of its own and an API process; add workers to it. Everything has ended when the block is left."""
    store = ensure_embedded(folder / "store", fsync=fsync)
    try:
        with ExitStack() as stack:
            product = Product(folder, write_agents(folder), store.url, fsync, _stack=stack)
            product.start_api()
            yield product
    finally:
        store.stop()
