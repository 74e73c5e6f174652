"""The one thread in which everything synchronous of RQ happens, in order, through outages of its Redis.

What is done here is for people who look (``rq info``, dashboards), never for the correctness of turns: a call that
cannot be made is tried again while the worker lives, and given up when it ends.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import structlog
from redis.exceptions import (
    ConnectionError as RedisConnectionError,
    OutOfMemoryError,
    ReadOnlyError,
    TimeoutError as RedisTimeoutError,
)

from protocol.errors import LoopEngineError

T = TypeVar("T")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0
PASSING = (RedisConnectionError, RedisTimeoutError, ReadOnlyError, OutOfMemoryError, OSError)
"""Errors that end by themselves: Redis is away, loading (a ConnectionError in redis-py), failing over or full."""

log = structlog.get_logger("workers")


class Bookkeeping:
    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rq-bookkeeping")
        self._giving_up = threading.Event()

    async def do(self, what: Callable[[], T]) -> T | None:
        """Run ``what`` after everything asked for before. It must bear being repeated from its beginning.

        None if it was given up: the worker ends while Redis is away, or it failed for good (then it is logged).
        Raises only exceptions of our own.
        """
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._insist, what)

    def _insist(self, what: Callable[[], T]) -> T | None:
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                return what()
            except PASSING as error:
                if self._giving_up.is_set():
                    return None
                log.warning("RQ's Redis does not answer, trying again", error=str(error), pause_s=pause_s)
                self._giving_up.wait(pause_s)
                pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
            except LoopEngineError:
                raise
            except Exception:
                # The thread outlives whatever RQ trips over: the worker's turns do not depend on it.
                log.exception("bookkeeping of RQ failed")
                return None

    def give_up(self) -> None:
        """From now on everything is tried once."""
        self._giving_up.set()

    def close(self) -> None:
        self.give_up()
        self._thread.shutdown(wait=False, cancel_futures=True)
