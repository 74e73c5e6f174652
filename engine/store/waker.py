"""Sending wake-ups: hints to workers that there is work. Losing one costs a sweep, never a turn."""

from __future__ import annotations

import structlog

from engine.store.connection import Connection
from engine.store.wake import WAITING_LIMIT, Wake
from protocol.errors import StoreUnavailable

log = structlog.get_logger("engine.store")


class Waker:
    """``rq``: the connection of RQ's Redis, which may be the store's own."""

    def __init__(self, rq: Connection, queue: str) -> None:
        self._rq = rq
        self._wake = Wake(queue)

    async def wake(self, about: str, limit: int = WAITING_LIMIT) -> None:
        """One wake-up, unless ``limit`` jobs wait already. ``about``: the turn that RQ's tools show as its cause."""
        keys, args = self._wake.command(about, limit)
        try:
            await self._rq.script("wake", keys, args)
        except StoreUnavailable as error:
            log.warning("wake-up not sent; the next sweep will find the turn", about=about, error=str(error))

    async def wake_if_idle(self, about: str) -> None:
        """One wake-up into an empty queue."""
        await self.wake(about, limit=1)
