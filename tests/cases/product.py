"""The product as a case meets it: API and worker processes, one Valkey, a strict fake model, and a ledger file.

    async with case(redis_url, tmp_path, {"refund": [asks(...), says("Done.")]}, workers=2) as product:
        sent = await product.client.say("s", "refund")

Every process can be stopped, killed and started again by its handle. What is common to all cases is checked when the
block is left without an exception (invariants.py).
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx2
import redis

from tests.cases.client import Client
from tests.cases.conversations import Conversations, Scripts
from tests.cases.invariants import these_hold_in_every_case
from tests.cases.ledger import RULES, Ledger, Wire, write_agent
from tests.fake_provider.server import FakeProvider
from tests.processes import Process, eventually, running_product

TENANT = "acme"
READY_S = 60.0


@dataclass
class Api:
    """One API process and its client."""

    process: Process
    client: Client


@dataclass
class Product:
    """``env`` is that of every process started from now on. ``faults``: answers that no client may see."""

    folder: Path
    redis_url: str
    fake: FakeProvider
    conversations: Conversations
    ledger: Ledger
    env: dict[str, str]
    apis: list[Api] = field(default_factory=list)
    workers: list[Process] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    _started: int = 0
    _stack: ExitStack = field(default_factory=ExitStack)

    @property
    def client(self) -> Client:
        """Of the first API process."""
        return self.apis[0].client

    def start(self, apis: int, workers: int) -> None:
        """Start them side by side, ready on return, the workers known to the API processes."""
        programs = [self._start("worker", {}) for _ in range(workers)], [self._start("serve", {}) for _ in range(apis)]
        for worker in programs[0]:
            self._ready_worker(worker)
        for api in programs[1]:
            client = self._ready_api(api)
            eventually(partial(_knows_workers, client.url, bool(workers)), READY_S)
            self.apis.append(Api(api, client))

    def start_api(self, tenant: str = TENANT, **env: str) -> Api:
        """One more API process, ready on return. That of another tenant is not listed in ``apis``."""
        process = self._start("serve", {"LOOPENGINE_TENANT": tenant, **env})
        api = Api(process, self._ready_api(process))
        if tenant == TENANT:
            self.apis.append(api)
        return api

    def start_worker(self, **env: str) -> Process:
        """One more worker process, ready on return."""
        worker = self._start("worker", env)
        self._ready_worker(worker)
        return worker

    def kill(self, *processes: Process) -> None:
        """kill -9 of processes, with whatever they have started."""
        for process in processes:
            os.killpg(process.pid, signal.SIGKILL)
        for process in processes:
            process.wait()
            self._forget(process)

    def stop(self, *processes: Process) -> None:
        """SIGTERM, and wait for the end."""
        for process in processes:
            process.signal(signal.SIGTERM)
        for process in processes:
            assert process.wait(40) == 0, process.output
            self._forget(process)

    def beats(self) -> dict[bytes, bytes]:
        """Counter of each worker: it grows while the worker lives, whether it has turns or not."""
        with redis.Redis.from_url(self.redis_url) as client:
            return {name: count for key in client.keys("loop:*:beats") for name, count in client.hgetall(key).items()}

    def due(self) -> int:
        """Tenants that have something queued, or parked with an expiry: 0 means that no clock will move anything."""
        with redis.Redis.from_url(self.redis_url) as client:
            return sum(client.zcard(key) for key in client.keys("loop:*:ready"))

    def wait_for_beats(self, count: int = 3) -> None:
        """Returns when the counter of every worker has grown that often: they live, and do nothing about a turn.

        They sweep as often as they beat, once a second, unless the case says otherwise."""
        before = self.beats()
        assert before, "no worker beats"

        def passed() -> bool:
            now = self.beats()
            return all(int(now.get(name, 0)) - int(beaten) >= count for name, beaten in before.items())

        eventually(passed, READY_S)

    def _ready_worker(self, worker: Process) -> None:
        worker.wait_for_output("worker started", READY_S)
        self.workers.append(worker)

    def _ready_api(self, process: Process) -> Client:
        line = process.wait_for_output("listening on ", READY_S)
        return Client(line.rpartition("listening on ")[2].strip(), self.faults)

    def _forget(self, process: Process) -> None:
        self.apis = [api for api in self.apis if api.process is not process]
        self.workers = [worker for worker in self.workers if worker is not process]

    def _start(self, command: str, env: Mapping[str, str]) -> Process:
        self._started += 1
        log = self.folder / f"{command}-{self._started}.log"
        return self._stack.enter_context(running_product([command], log, cwd=self.folder, env={**self.env, **env}))


@asynccontextmanager
async def case(
    redis_url: str,
    folder: Path,
    scripts: Scripts,
    *,
    apis: int = 1,
    workers: int = 1,
    wire: Wire = "openai",
    rules: Sequence[str] = tuple(RULES),
    env: Mapping[str, str] | None = None,
) -> AsyncIterator[Product]:
    """Everything up and ready; gone when the block is left. ``scripts`` as in conversations.py."""
    write_agent(folder / "agents", wire, list(rules))
    conversations = Conversations(scripts)
    with FakeProvider(conversations) as fake, ExitStack() as stack:
        product = Product(
            folder,
            redis_url,
            fake,
            conversations,
            Ledger(folder / "ledger.txt"),
            {**_environment(redis_url, folder, fake), **(env or {})},
            _stack=stack,
        )
        product.start(apis, workers)
        try:
            yield product
            await these_hold_in_every_case(product)
        finally:
            await asyncio.gather(*(api.client.aclose() for api in product.apis))


def _knows_workers(url: str, expected: bool) -> bool:
    """An API process looks for workers once a second, and does not wait for turns while it knows of none."""
    return not expected or bool(httpx2.get(f"{url}/readyz", trust_env=False).json()["workersAlive"])


def _environment(redis_url: str, folder: Path, fake: FakeProvider) -> dict[str, str]:
    return {
        "REDIS_URL": redis_url,
        "LOOPENGINE_AGENTS_DIR": str(folder / "agents"),
        "LOOPENGINE_TENANT": TENANT,
        "LOOPENGINE_ENV": "test",
        "LOOPENGINE_PORT": "0",
        "LEDGER": str(folder / "ledger.txt"),
        "OPENAI_BASE_URL": fake.openai_url,
        "OPENAI_API_KEY": "a-key-for-the-fake",
        "ANTHROPIC_BASE_URL": fake.anthropic_url,
        "ANTHROPIC_API_KEY": "a-key-for-the-fake",
    }
