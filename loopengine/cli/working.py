"""``worker``: one worker process, or a supervisor over several."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator

import structlog

from engine.settings import Settings
from engine.store.connection import Connection, client
from engine.store.keys import turn_id_of
from engine.store.opening import open_store
from engine.store.store import Store
from engine.store.waker import Waker
from loopengine.cli.child import product_command
from loopengine.cli.deployment import Deployment, deployed, load_settings
from loopengine.cli.options import Where
from loopengine.store_settings import inspect_store, refuse_unsuitable
from protocol.errors import InvalidRequest
from workers.slots import open_slots
from workers.supervisor import run_supervisor
from workers.worker import run_worker

log = structlog.get_logger("loopengine.cli")


def work(processes: int | None, concurrency: int | None, name: str | None, where: Where) -> int:
    """The exit code, after the end of the last process. Raises LoopEngineError."""
    settings = load_settings(where, processes=processes, concurrency=concurrency)
    if settings.processes > 1 and name is not None:
        raise InvalidRequest("--name is the name of one process; leave it out with more than one")
    with deployed(settings, where.redis_url) as deployment:
        check_store(deployment)
        if settings.processes == 1:
            code = run_worker(settings, redis_url=deployment.url, name=name, open_slots=open_slots)
            leave_threads_behind(code)
            return code
        command = product_command("worker", "--processes", "1", "--concurrency", str(settings.concurrency))
        if where.redis_url is not None:
            command += ["--redis-url", where.redis_url]
        return run_supervisor(
            settings, settings.processes, command, lambda dead: asyncio.run(_release(settings, deployment.url, dead))
        )


def leave_threads_behind(code: int) -> None:
    """End this process at once if a tool has left threads: the interpreter would wait for them, perhaps for ever."""
    left = [one.name for one in threading.enumerate() if one is not threading.main_thread() and not one.daemon]
    if left:
        log.warning("threads that tools left running end with the process", threads=left)
        os._exit(code)


def check_store(deployment: Deployment) -> None:
    """Refuse a store that would throw turns away, warn about one that may forget them. Raises StoreUnsuitable."""
    findings = inspect_store(deployment.url)
    refuse_unsuitable(findings)
    for finding in findings:
        log.warning(finding.problem)


async def _release(settings: Settings, url: str, worker: str) -> None:
    """Give back the turns of a process that is known to be dead, without waiting for a lease to pass."""
    async with opened_store(settings, url) as store, opened_waker(settings, store) as waker:
        for keys in store.partitions:
            counter = await store.connection.command("HGET", keys.beats, worker)
            for ref in await store.release(keys, worker, counter.decode() if counter else ""):
                await waker.wake(turn_id_of(ref))


@contextlib.asynccontextmanager
async def opened_store(settings: Settings, url: str) -> AsyncIterator[Store]:
    store = await open_store(settings, url, patience_s=5.0)
    try:
        yield store
    finally:
        await store.connection.aclose()


@contextlib.asynccontextmanager
async def opened_waker(settings: Settings, store: Store) -> AsyncIterator[Waker]:
    if settings.rq_url is None:
        yield Waker(store.connection, store.connection, settings.queue)
        return
    rq = Connection(client(settings.rq_url), 2.0)
    try:
        yield Waker(rq, store.connection, settings.queue)
    finally:
        await rq.aclose()
