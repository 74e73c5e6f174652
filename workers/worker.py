"""One worker process: follows the wake-ups of RQ's queue with its slots, until it is told to stop.

The event loop runs in the main thread; RQ's synchronous bookkeeping is another thread's (bookkeeping.py, rq_worker.py),
jobs come in by listener.py and are accounted for by jobs.py. What a turn is, only the slots know.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from engine.settings import Settings
from engine.tethered import TETHER_SIGNAL
from protocol.errors import StoreUnavailable
from workers.bookkeeping import Bookkeeping
from workers.jobs import Jobs
from workers.listener import Listener
from workers.naming import new_worker_name
from workers.rq_worker import AsyncWorker
from workers.watchdog import watched_loop

log = structlog.get_logger("workers")

_CONNECT_S = 10.0


class Slots(Protocol):
    """The engine's side of a worker: turns that it runs, at most so many at once."""

    def free(self) -> int: ...

    async def pump(self) -> None:
        """Claim turns until the slots are full or nothing is due; returns when those it started have ended."""
        ...

    async def start(self) -> None: ...

    async def drain(self, grace_s: float) -> None:
        """Claim nothing more, hand running turns back at their next commit, wait for them at most ``grace_s``."""
        ...

    async def aclose(self) -> None: ...


OpenSlots = Callable[..., Awaitable[Slots]]
"""Called once as ``open_slots(settings, redis_url=..., worker=name)``."""


def run_worker(settings: Settings, *, redis_url: str, name: str | None, open_slots: OpenSlots) -> int:
    """Work until SIGTERM, SIGINT or RQ's shutdown command; the exit code of the process (0).

    ``name`` must be new; None makes one. Stopping hands turns back within ``settings.drain_s``; a second signal ends
    the process at once. Raises OperatorError when it cannot start.
    """
    return asyncio.run(_run(settings, redis_url, name or new_worker_name(), open_slots))


async def _run(settings: Settings, redis_url: str, name: str, open_slots: OpenSlots) -> int:
    stop = asyncio.Event()
    _stop_on_signals(stop)
    rq_url = settings.rq_url or redis_url
    books = Bookkeeping()
    try:
        rq = await _register(books, settings.queue, rq_url, name)
        try:
            slots = await open_slots(settings, redis_url=redis_url, worker=name)
            try:
                async with watched_loop(settings.blocked_s):
                    await _work(rq, books, slots, rq_url, stop, settings.drain_s)
            finally:
                await slots.aclose()
        finally:
            books.give_up()
            await books.do(rq.unregister)
            rq.close()
    finally:
        books.close()
    log.info("worker stopped", worker=name)
    return 0


async def _work(
    rq: AsyncWorker, books: Bookkeeping, slots: Slots, rq_url: str, stop: asyncio.Event, drain_s: float
) -> None:
    await slots.start()
    jobs = Jobs(rq, books, slots.pump)
    log.info("worker started", worker=rq.name, queue=rq.queue.name)
    try:
        await Listener(rq, books, jobs, slots.free, rq_url).listen_until(stop)
        log.info("worker stops, its turns are handed back", worker=rq.name, at_most_s=drain_s)
        await slots.drain(drain_s)
    finally:
        await jobs.finish()


def _stop_on_signals(stop: asyncio.Event) -> None:
    received: list[signal.Signals] = []

    def on_signal(number: signal.Signals) -> None:
        if number != TETHER_SIGNAL:
            received.append(number)
        if len(received) > 1:
            log.warning("second signal: the worker ends at once, its turns are taken up by others", signal=number.name)
            os._exit(1)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, TETHER_SIGNAL):
        loop.add_signal_handler(number, on_signal, number)


async def _register(books: Bookkeeping, queue: str, rq_url: str, name: str) -> AsyncWorker:
    def open_and_register() -> AsyncWorker:
        rq = AsyncWorker.open(queue, redis_url=rq_url, name=name)
        rq.register()
        return rq

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_CONNECT_S):
            rq = await books.do(open_and_register)
        if rq is not None:
            return rq
    raise StoreUnavailable(
        f"worker {name!r} could not use its queue's Redis for {_CONNECT_S:.0f} s: check REDIS_URL and LOOPENGINE_RQ_URL"
    )
