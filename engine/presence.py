"""Presence: is any worker alive? Watched once a second from the first time that somebody asks."""

from __future__ import annotations

import asyncio
import contextlib
import time

from engine.store.liveness import Watch
from engine.store.store import Store, decoded
from protocol.errors import StoreUnavailable

LOOK_S = 1.0


class Presence:
    def __init__(self, store: Store, lease_s: float) -> None:
        self._store = store
        self._watch = Watch(lease_s)
        self._watching: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Look now unless somebody is known to be alive, and keep looking. Raises StoreUnavailable.

        A worker that has come since the last look must not be told as missing."""
        if self._watching is None or not self.anyone_alive():
            await self._look()
        if self._watching is None:
            self._watching = asyncio.create_task(self._keep_looking(), name="worker-watch")

    def anyone_alive(self) -> bool:
        return self._watching is None or self._watch.anyone_alive(time.monotonic())

    async def _look(self) -> None:
        replies = await asyncio.gather(
            *(self._store.connection.command("HGETALL", keys.beats) for keys in self._store.partitions)
        )
        counters: dict[str, str] = {}
        for flat in replies:
            counters |= decoded(flat)
        self._watch.look(time.monotonic(), counters)

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            with contextlib.suppress(StoreUnavailable):
                await self._look()

    async def aclose(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
