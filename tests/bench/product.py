"""The product as it is run: a Valkey, ``loopengine serve``, ``loopengine worker``, all started and ended here.

The processes are those of a deployment: the API answers real HTTP, workers take RQ's jobs, everything durable is in
the store. The benchmark is their only client.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from redis import Redis

from engine.store.keys import Keys
from loopengine.embedded import Fsync, ensure_embedded
from tests.bench.agents_folder import write_agents
from tests.processes import Process, eventually, running

READY_S = 60.0

_LOOPENGINE = (sys.executable, "-m", "loopengine")
_URL = re.compile(r"http://127\.0\.0\.1:\d+")


@dataclass
class Product:
    """``folder`` holds the agents and the logs of the processes."""

    folder: Path
    agents: Path
    redis_url: str
    fsync: Fsync
    store_pid: int
    base_url: str = ""
    api: Process | None = None
    workers: list[Process] = field(default_factory=list)
    _stack: ExitStack = field(default_factory=ExitStack)

    def start_api(self) -> None:
        api = self.api = self._start("api.log", "serve", "--port", "0", "--no-worker")
        line = api.wait_for_output("http://127.0.0.1:", READY_S)
        found = _URL.search(line)
        assert found, line
        self.base_url = found[0]

    def add_worker(self, *, concurrency: int = 100, processes: int = 1) -> None:
        """Start one more ``loopengine worker``; its processes take turns on return."""
        options = ("--concurrency", str(concurrency), "--processes", str(processes))
        expected = self.beating() + processes
        self.workers.append(self._start(f"worker-{len(self.workers) + 1}.log", "worker", *options))
        eventually(lambda: self.beating() >= expected, READY_S)

    @property
    def pids(self) -> dict[str, int]:
        """Of everything that works on a turn, the benchmark's client included."""
        found = {"store": self.store_pid, "client": os.getpid()}
        if self.api is not None:
            found["api"] = self.api.pid
        return found | {f"worker {number}": worker.pid for number, worker in enumerate(self.workers, start=1)}

    def beating(self) -> int:
        """How many worker processes there are for the store."""
        with Redis.from_url(self.redis_url) as redis:
            return len(redis.hkeys(Keys(0).beats))

    def _start(self, log: str, *arguments: str) -> Process:
        env = {"REDIS_URL": self.redis_url, "LOOPENGINE_AGENTS_DIR": str(self.agents)}
        command = [*_LOOPENGINE, *arguments]
        return self._stack.enter_context(running(command, self.folder / log, cwd=self.folder, env=env))


@contextmanager
def started(folder: Path, fsync: Fsync) -> Iterator[Product]:
    """A store of its own and an API process; add workers to it. Everything has ended when the block is left."""
    store = ensure_embedded(folder / "store", fsync=fsync)
    try:
        with ExitStack() as stack:
            product = Product(folder, write_agents(folder), store.url, fsync, store.pid, _stack=stack)
            product.start_api()
            yield product
    finally:
        store.stop()
