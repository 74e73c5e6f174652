"""The beat: a thread that adds 1 to the worker's counter every second, whatever the event loop is doing.

A thread, because a tool that blocks the loop for seconds is no reason to lose all its turns; but a loop that has not
ticked for LOOP_LOST_S is taken for lost, and its beat stops, so that others take over.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Sequence

import structlog
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from engine.store.keys import Keys

log = structlog.get_logger("workers.beat")

BEAT_S = 1.0
LOOP_SLOW_S = 1.0
LOOP_LOST_S = 30.0
# Without an acknowledged beat for this long a worker begins no new effect: by the end of the lease (5 s) others may
# have taken its turns, and what has begun by then is decided by the token.
STEADY_S = 4.0


class Beat:
    def __init__(
        self, redis_url: str, partitions: Sequence[Keys], worker: str, loop_lost_s: float | None = None
    ) -> None:
        self._redis = Redis.from_url(
            redis_url, socket_timeout=2.0, socket_connect_timeout=2.0, retry=Retry(NoBackoff(), 0)
        )
        self._loop_lost_s = loop_lost_s  # None: LOOP_LOST_S
        self._partitions = partitions
        self._worker = worker
        self._stopped = threading.Event()
        self._first = threading.Event()
        self._thread = threading.Thread(target=self._run, name="beat", daemon=True)
        self._acknowledged = float("-inf")
        self._ticked = time.monotonic()
        self._main = threading.get_ident()
        self._ticker: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns after the first acknowledged beat: from then on the store takes this worker's claims."""
        self._ticker = asyncio.create_task(self._tick(), name="beat-tick")
        self._thread.start()
        await asyncio.to_thread(self._first.wait)

    def is_steady(self) -> bool:
        """May a new effect begin?"""
        return time.monotonic() - self._acknowledged < STEADY_S

    async def steady(self) -> None:
        while not self.is_steady():  # noqa: ASYNC110 -- rare and short; an event would need the loop from the thread
            await asyncio.sleep(0.1)

    async def stop(self) -> None:
        self._stopped.set()
        if self._ticker:
            self._ticker.cancel()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, 5.0)
        self._redis.close()

    async def _tick(self) -> None:
        while True:
            self._ticked = time.monotonic()
            await asyncio.sleep(0.2)

    def _run(self) -> None:
        while True:
            silent_s = time.monotonic() - self._ticked
            if silent_s > LOOP_SLOW_S:
                log.warning("the event loop is blocked", for_s=round(silent_s, 1), by=self._blocker())
            if silent_s < (self._loop_lost_s or LOOP_LOST_S):
                self._beat()
            if self._stopped.wait(BEAT_S):
                return

    def _beat(self) -> None:
        sent = time.monotonic()  # the lease counts from the sending: the reply may have been long on its way
        try:
            pipeline = self._redis.pipeline(transaction=False)
            for keys in self._partitions:
                pipeline.hincrby(keys.beats, self._worker, 1)
            pipeline.execute()
            self._acknowledged = sent
            self._first.set()
        except (RedisError, OSError) as error:
            log.warning("beat not acknowledged", error=str(error))

    def _blocker(self) -> str:
        """The innermost function that the event loop's thread is in."""
        frame = sys._current_frames().get(self._main)
        stack = traceback.extract_stack(frame, limit=1) if frame else []
        return f"{stack[-1].name} ({stack[-1].filename}:{stack[-1].lineno})" if stack else "unknown"
