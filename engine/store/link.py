"""One open connection to Redis, spoken to in pipelines: commands go out when they come, replies come in their order.

redis-py opens it (URLs, TLS, AUTH, sockets); what is sent and read is packed and parsed by hiredis directly, because
redis-py's way through a pipeline of one costs seven times the CPU. Owns no retries: what was not answered when the
link breaks is handed back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import hiredis
from redis import asyncio as aioredis

REPLY_S = 10.0
"""A reply that is due for longer means that nobody is there: the other end may be gone without having closed."""
_WATCH_S = 1.0
_READ_BYTES = 256 * 1024


class Request(Protocol):
    packed: bytes

    def take(self, _reply: Any, /) -> None:
        """The reply has come, perhaps after everybody stopped waiting for it."""
        ...

    def look_at_clock(self) -> None:
        """Called once a second while the reply is due."""
        ...


class Link:
    """``on_break`` gets the error and the requests that were sent and not answered, in their order, once."""

    def __init__(self, opened: Any, on_break: Callable[[Exception, list[Request]], None], reply_s: float) -> None:
        reader: asyncio.StreamReader = opened._reader
        writer: asyncio.StreamWriter = opened._writer
        self._opened = opened
        self._reader = reader
        self._writer = writer
        self._on_break = on_break
        self._reply_s = reply_s
        self._due: deque[Request] = deque()
        self._parser = hiredis.Reader()
        self._loop = asyncio.get_running_loop()
        self._heard = self._loop.time()
        self._reading = asyncio.create_task(self._read(), name="store-link")
        self._watch = self._loop.call_later(_WATCH_S, self._look)

    @classmethod
    async def open(
        cls, redis: aioredis.Redis, on_break: Callable[[Exception, list[Request]], None], reply_s: float = REPLY_S
    ) -> Link:
        """Raises redis' ConnectionError and TimeoutError, OSError, and AuthenticationError for good."""
        pool: Any = redis.connection_pool
        opened = pool.make_connection()
        try:
            await opened.connect()
        except BaseException:
            opened._close()
            raise
        return cls(opened, on_break, reply_s)

    def send(self, requests: Iterable[Request]) -> None:
        sent = list(requests)
        if not self._due:
            self._heard = self._loop.time()
        self._due.extend(sent)
        self._writer.write(b"".join([request.packed for request in sent]))

    async def _read(self) -> None:
        try:
            while data := await self._reader.read(_READ_BYTES):
                self._heard = self._loop.time()
                self._parser.feed(data)
                while (reply := self._parser.gets()) is not False:
                    self._due.popleft().take(reply)
            raise ConnectionResetError("Redis closed the connection")
        except (OSError, hiredis.HiredisError, IndexError) as error:  # IndexError: a reply that nobody asked for
            self._break(error)

    def _look(self) -> None:
        for request in self._due:
            request.look_at_clock()
        if self._due and self._loop.time() - self._heard > self._reply_s:
            self._reading.cancel()
            self._break(TimeoutError(f"Redis did not answer for {self._reply_s:g} s"))
        else:
            self._watch = self._loop.call_later(_WATCH_S, self._look)

    def _break(self, error: Exception) -> None:
        self._watch.cancel()
        self._opened._close()
        unanswered = list(self._due)
        self._due.clear()
        self._on_break(error, unanswered)

    async def aclose(self) -> list[Request]:
        """Close on purpose; the requests that nobody answers any more."""
        self._watch.cancel()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        unanswered = list(self._due)
        self._due.clear()
        await self._opened.disconnect()
        return unanswered
