"""What reaches a worker from RQ's Redis: wake-ups, RQ's commands, and the state of the connection itself.

Everything here goes on through outages, with capped pauses; nothing here decides what a turn is.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any

import structlog
from redis.exceptions import RedisError

from engine.store.connection import client
from workers.bookkeeping import FIRST_PAUSE_S, LONGEST_PAUSE_S, Bookkeeping
from workers.jobs import Jobs
from workers.rq_worker import HEARTBEAT_S, AsyncWorker

log = structlog.get_logger("workers")

_BLOCK_S = 5
_FULL_PAUSE_S = 0.05
_LAST_WORDS_S = 2.0


class Listener:
    """``free`` tells how many turns more may run; without room no job is taken, so that others can have it."""

    def __init__(self, rq: AsyncWorker, books: Bookkeeping, jobs: Jobs, free: Callable[[], int], rq_url: str) -> None:
        self._rq = rq
        self._books = books
        self._jobs = jobs
        self._free = free
        # A blocking read gets a connection of its own, whose timeout is longer than the read, and no hidden retries.
        self._queue = client(rq_url, timeout_s=_BLOCK_S + 5.0, single_connection_client=True)
        self._commands = client(rq_url, timeout_s=None, health_check_interval=15)
        self._queue_client_id: int | None = None
        self._stopping = False
        self._suspended = False
        self._beat_now = asyncio.Event()

    async def listen_until(self, stop: asyncio.Event) -> None:
        """Take jobs until ``stop`` is set (RQ's shutdown command sets it too); after that none is taken any more."""
        stopped = asyncio.create_task(stop.wait(), name="stop")
        taking = asyncio.create_task(self._take_jobs(), name="take jobs")
        others = {
            asyncio.create_task(self._obey(stop), name="obey"),
            asyncio.create_task(self._beat(), name="beat"),
        }
        try:
            done, _ = await asyncio.wait({stopped, taking, *others}, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stopped}:
                task.result()  # they end by a bug only, and then the worker must not live on without them
            await self._stop_taking(taking)
        finally:
            for task in (stopped, taking, *others):
                task.cancel()
            await asyncio.gather(stopped, taking, *others, return_exceptions=True)
            await self._queue.aclose()
            await self._commands.aclose()

    async def _take_jobs(self) -> None:
        pause_s = FIRST_PAUSE_S
        queue = self._rq.queue
        while not self._stopping:
            try:
                await self._wait_for_room()
                if self._queue_client_id is None:
                    self._queue_client_id = await self._queue.client_id()
                popped: Any = await self._queue.blmove(queue.key, queue.intermediate_queue_key, _BLOCK_S)
                pause_s = FIRST_PAUSE_S
                if popped is not None:
                    await self._take(popped.decode())
            except (RedisError, OSError) as error:
                self._queue_client_id = None
                log.warning("the queue does not answer, trying again", error=str(error), pause_s=pause_s)
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
                self._beat_now.set()  # it may come back without its data

    async def _take(self, job_id: str) -> None:
        if self._stopping:
            await self._books.do(lambda: self._rq.put_back(job_id))
        else:
            self._jobs.take(job_id)

    async def _wait_for_room(self) -> None:
        # Late by a moment costs nothing: a slot that ends a turn claims the next by itself, without a job.
        while (self._free() <= 0 or self._suspended) and not self._stopping:
            self._jobs.ended.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FULL_PAUSE_S):
                    await self._jobs.ended.wait()

    async def _stop_taking(self, taking: asyncio.Task[None]) -> None:
        # A blocking read that is cut off may pop a job whose id nobody gets. So the server is asked to end it, and
        # asked again, because the read may still be on its way there.
        self._stopping = True
        for _ in range(int(_LAST_WORDS_S / _FULL_PAUSE_S)):
            if self._queue_client_id is not None:
                with contextlib.suppress(RedisError, OSError):
                    async with asyncio.timeout(_LAST_WORDS_S):
                        await self._commands.client_unblock(self._queue_client_id)
            if (await asyncio.wait({taking}, timeout=_FULL_PAUSE_S))[0]:
                return

    async def _obey(self, stop: asyncio.Event) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                async with self._commands.pubsub(ignore_subscribe_messages=True) as channel:
                    await channel.subscribe(self._rq.pubsub_channel_name)
                    while True:
                        message = await channel.get_message(timeout=15.0)
                        pause_s = FIRST_PAUSE_S
                        if message is not None:
                            self._on_command(message["data"], stop)
            except (RedisError, OSError):
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    def _on_command(self, data: bytes, stop: asyncio.Event) -> None:
        try:
            command = json.loads(data)
            name, job_id = command["command"], command.get("job_id", "")
        except (ValueError, KeyError, TypeError, AttributeError):
            log.warning("a command of RQ that cannot be read is ignored", command=repr(data[:200]))
            return
        if name == "shutdown":
            stop.set()
        elif name not in ("stop-job", "stop-execution") or not self._jobs.stop(job_id):
            log.warning("a command of RQ does not apply here and is ignored", command=name, job=job_id)

    async def _beat(self) -> None:
        while True:
            self._beat_now.clear()
            self._suspended = bool(await self._books.do(self._rq.beat))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_S):
                    await self._beat_now.wait()
