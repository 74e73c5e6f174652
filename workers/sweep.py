"""The sweep: what nobody else notices. Once a second it releases the turns of dead workers and wakes for due ones.

Every worker sweeps; two at once do no harm, because a release happens once and a wake-up is only a hint.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import structlog

from engine.store.keys import Keys, turn_id_of
from engine.store.liveness import Watch
from engine.store.store import Store, decoded

log = structlog.get_logger("workers.sweep")


class Sweep:
    """``wake_if_idle``: sends one wake-up, unless jobs are waiting already."""

    def __init__(self, store: Store, worker: str, lease_s: float, wake_if_idle: Callable[[str], Awaitable[None]]):
        self._store = store
        self._worker = worker
        self._watches = [Watch(lease_s) for _ in store.partitions]
        self._wake_if_idle = wake_if_idle

    async def round(self) -> None:
        """One look at every partition. Raises StoreUnavailable."""
        for keys, watch in zip(self._store.partitions, self._watches, strict=True):
            counters, owners, due = await asyncio.gather(
                self._store.connection.command("HGETALL", keys.beats),
                self._owners(keys),
                self._due(keys),
            )
            beating = decoded(counters)
            now = time.monotonic()
            watch.look(now, beating)
            dead = watch.dead(now)
            dead.pop(self._worker, None)
            for worker in owners - beating.keys():
                dead[worker] = ""
            for worker, counter in dead.items():
                await self._release(keys, worker, counter)
            if due:
                await self._wake_if_idle(due)

    async def _owners(self, keys: Keys) -> set[str]:
        """Workers that running turns are registered for."""
        members = await self._store.connection.command("ZRANGE", keys.running, 0, -1)
        return {member.decode().split("|", 1)[0] for member in members}

    async def _due(self, keys: Keys) -> str:
        """A tenant hash that has something due, or ''."""
        (seconds, micros), first = await asyncio.gather(
            self._store.connection.command("TIME"),
            self._store.connection.command("ZRANGE", keys.ready, 0, 0, "WITHSCORES"),
        )
        if not first:
            return ""
        now_ms = int(seconds) * 1000 + int(micros) // 1000
        return first[0].decode() if float(first[1]) <= now_ms else ""

    async def _release(self, keys: Keys, worker: str, counter: str) -> None:
        released = await self._store.release(keys, worker, counter)
        if released:
            turns = [turn_id_of(ref) for ref in released]
            log.warning("a worker was lost; its turns go on elsewhere", worker=worker, turns=turns)
            await self._wake_if_idle(turns[0])
