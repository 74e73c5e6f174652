"""Sending wake-ups: hints to workers that there is work. Losing one costs a sweep, never a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import structlog

from engine.store.connection import Connection
from engine.store.wake import WAITING_LIMIT, Wake
from protocol.errors import StoreUnavailable

T = TypeVar("T")

log = structlog.get_logger("engine.store")


class Waker:
    """``rq``: the connection of RQ's Redis, which may be the store's own."""

    def __init__(self, rq: Connection, store: Connection, queue: str) -> None:
        self._rq = rq
        self._store = store
        self._wake = Wake(queue)

    async def wake(self, about: str, limit: int = WAITING_LIMIT) -> None:
        """One wake-up, unless ``limit`` jobs wait already. ``about``: the turn that RQ's tools show as its cause."""
        keys, args = self._wake.command(about, limit)
        try:
            await self._rq.script("wake", keys, args)
        except StoreUnavailable as error:
            log.warning("wake-up not sent; the next sweep will find the turn", about=about, error=str(error))

    async def after(self, write: Coroutine[Any, Any, T], about: str) -> T:
        """Do ``write`` and wake; in one pipeline if both go to the same Redis. Should nothing have been written, the
        wake-up was for nothing, which is cheaper than a round trip each time to find out."""
        if self._rq is not self._store:
            written = await write
            await self.wake(about)
            return written
        # Both commands are queued within this tick, in this order, and so leave and are executed in this order.
        written, _ = await asyncio.gather(write, self.wake(about))
        return written

    async def wake_if_idle(self, about: str) -> None:
        """One wake-up into an empty queue."""
        await self.wake(about, limit=1)
