"""Following turns live: one subscription per process, any number of readers, and the stream as the truth.

Every commit publishes its events. What arrives is handed to the readers of that turn; a gap, a lost subscription
or a long silence is healed by reading the stream from where the reader stands. Nothing depends on a message
arriving, and a slow reader costs a bounded buffer: what does not fit is dropped here and read from the stream.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator

import structlog
from redis import asyncio as aioredis
from redis.exceptions import RedisError

from engine.store.store import Entry, Store, entry_of
from protocol.errors import StoreUnavailable, TurnGone

log = structlog.get_logger()

HEAL_S = 10.0  # silence after which a reader looks at the stream itself
_BUFFER = 256  # entries kept for a reader that is slower than its turn
_PAGE = 500
_CHANGING_HANDS_S = 0.5  # a pause before the next attempt that says: this is no restart any more


def is_done(event: bytes) -> bool:
    """Is this the turn's last event? ``type`` comes first in every event, so no argument text can imitate it."""
    return event.startswith(b'{"type":"done"')


_TURNING_POINTS = (b'{"type":"done"', b'{"type":"approval:pending"', b'{"type":"question:pending"')


def is_turning_point(event: bytes) -> bool:
    """Does the turn stop with this event: over, or waiting for a person?"""
    return event.startswith(_TURNING_POINTS)


class Ear:
    """One reader's buffer of news about one turn."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()
        self._news = asyncio.Event()
        self.overflowed = False

    def hear(self, entries: list[Entry]) -> None:
        if len(self._entries) + len(entries) > _BUFFER:
            self._entries.clear()
            self.overflowed = True
        else:
            self._entries.extend(entries)
        self._news.set()

    def look_again(self) -> None:
        """Something may have been missed."""
        self.overflowed = True
        self._news.set()

    async def wait(self, timeout_s: float) -> bool:
        """Until there is news; False when there was none in time."""
        if not self._entries and not self.overflowed:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._news.wait()
            except TimeoutError:
                return False
        return True

    def take(self) -> list[Entry]:
        entries = list(self._entries)
        self._entries.clear()
        self._news.clear()
        return entries


class Tail:
    """``redis`` is a client of the tail's own, without a read timeout: it waits for news as long as it takes."""

    def __init__(self, store: Store, redis: aioredis.Redis) -> None:
        self.store = store
        self._redis = redis
        self._ears: dict[str, set[Ear]] = {}
        self._listener: asyncio.Task[None] | None = None
        self._listening = asyncio.Event()

    async def follow(
        self, tenant: str, ref: str, after: int = 0, *, idle_s: float = HEAL_S
    ) -> AsyncGenerator[Entry | None, None]:
        """The turn's entries behind ``after``, live, each once and in order; ends behind `done`. None after each
        ``idle_s`` of silence. When the store lost what was given out already, it begins again with entry 1. Raises
        TurnGone when the turn was erased, StoreUnavailable when Redis stays away."""
        n, last = after, None
        with self.ear(ref) as ear:
            await self.subscribed()
            silent_s = 0.0
            stale = True  # the stream is read first: what was published before the ear was there
            while True:
                if stale:
                    ear.overflowed = False
                    ear.take()
                    if last is not None and not await self._holds(tenant, ref, last):
                        n = 0
                    async for entry in self._behind(tenant, ref, n):
                        yield entry
                        n, last = entry.n, entry
                        if is_done(entry.event):
                            return
                    if last is None and await self._is_over(tenant, ref, n):
                        return
                    stale, silent_s = False, 0.0
                if not await ear.wait(min(idle_s, HEAL_S)):
                    silent_s += min(idle_s, HEAL_S)
                    stale = silent_s >= HEAL_S
                    yield None
                    continue
                silent_s = 0.0
                for entry in ear.take():
                    if entry.n > n + 1:
                        stale = True
                        break
                    if entry.n == n + 1:
                        yield entry
                        n, last = entry.n, entry
                        if is_done(entry.event):
                            return
                stale = stale or ear.overflowed

    async def _holds(self, tenant: str, ref: str, entry: Entry) -> bool:
        page = await self.store.entries(tenant, ref, entry.n - 1, 1)
        return bool(page) and (page[0].n, page[0].writer) == (entry.n, entry.writer)

    async def _is_over(self, tenant: str, ref: str, n: int) -> bool:
        """Did the reader come with a place at (or behind) the end of the turn?"""
        newest = await self.store.newest_entry(tenant, ref)
        return newest is not None and newest.n <= n and is_done(newest.event)

    async def _behind(self, tenant: str, ref: str, after: int) -> AsyncIterator[Entry]:
        found = 0
        while True:
            page = await self.store.entries(tenant, ref, after, _PAGE)
            for entry in page:
                yield entry
                after = entry.n
            found += len(page)
            if len(page) < _PAGE:
                break
        if not found and not await self.store.turn_fields(tenant, ref):
            raise TurnGone("the turn is not there any more")

    @contextlib.contextmanager
    def ear(self, ref: str, ear: Ear | None = None) -> Iterator[Ear]:
        """Hear about a turn for the length of a with block; one ear may hear about several."""
        ear = ear or Ear()
        self._ears.setdefault(ref, set()).add(ear)
        try:
            yield ear
        finally:
            ears = self._ears[ref]
            ears.discard(ear)
            if not ears:
                del self._ears[ref]

    async def subscribed(self) -> None:
        if self._listener is None:
            self._listener = asyncio.create_task(self._listen(), name="tail-listener")
        with contextlib.suppress(TimeoutError):  # without news the readers heal themselves from the stream
            async with asyncio.timeout(1.0):
                await self._listening.wait()

    async def _listen(self) -> None:
        pause_s = 0.05
        while True:
            try:
                async with self._redis.pubsub(ignore_subscribe_messages=True) as pubsub:
                    await pubsub.subscribe(*(keys.news for keys in self.store.partitions))
                    self._listening.set()
                    self._look_again()
                    pause_s = 0.05
                    async for message in pubsub.listen():
                        self._hand_out(message["data"])
            except (RedisError, OSError) as error:
                # An embedded store changes hands within that time whenever the command that started it ends.
                tell = log.warning if pause_s > _CHANGING_HANDS_S else log.info
                tell("news subscription lost; readers heal from the stream", error=str(error))
            self._listening.clear()
            self._look_again()
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, 1.0)

    def _look_again(self) -> None:
        for ears in self._ears.values():
            for ear in ears:
                ear.look_again()

    def _hand_out(self, data: bytes) -> None:
        ref, first, *entries = data.split(b"\n")
        ears = self._ears.get(ref.decode())
        if ears:
            start = int(first)
            heard = [entry_of(start + i, raw) for i, raw in enumerate(entries)]
            for ear in ears:
                if heard:
                    ear.hear(heard)
                else:
                    ear.look_again()  # the turn was erased

    async def aclose(self) -> None:
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.gather(self._listener, return_exceptions=True)
        with contextlib.suppress(RedisError, OSError, StoreUnavailable):
            await self._redis.aclose()
