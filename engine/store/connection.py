"""One multiplexed way to Redis: what is asked for in one tick of the event loop leaves in one write.

Every write that goes through here is a script that is safe to repeat, so whatever was not answered when a connection
broke is sent again on the next. redis-py's own retries are not used: they would repeat unseen, with their own idea of
time.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from importlib import resources
from typing import Any, cast

import hiredis
from redis import asyncio as aioredis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    ConnectionError as RedisConnectionError,
    ResponseError,
    TimeoutError as RedisTimeoutError,
)

from engine.store.link import Link, Request
from protocol.errors import StoreUnavailable

SCRIPTS = ("accept", "claim", "commit", "settle", "release", "erase", "wake")

# Error replies that say "not now" and not "never": the store is loading, read-only, full, or failing over.
_NOT_NOW = ("LOADING", "READONLY", "OOM", "MISCONF", "MASTERDOWN", "NOREPLICAS", "TRYAGAIN", "CLUSTERDOWN", "BUSY ")
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 1.0


def _load(name: str) -> bytes:
    folder = resources.files("engine.store") / "scripts"
    line = (folder / "line.lua").read_text()
    # Without this first line a script goes past maxmemory once its first write got through; with it, it is
    # refused whole.
    return f"#!lua\n{line}{(folder / f'{name}.lua').read_text()}".encode()


SOURCE = {name: _load(name) for name in SCRIPTS}
SHA = {name: hashlib.sha1(source).hexdigest() for name, source in SOURCE.items()}


def client(url: str, *, timeout_s: float | None = 10.0, **options: Any) -> aioredis.Redis:
    """A redis-py client without retries of its own. ``timeout_s`` None: for reads that wait for news."""
    return aioredis.Redis.from_url(
        url, socket_timeout=timeout_s, socket_connect_timeout=5.0, protocol=2, retry=Retry(NoBackoff(), 0), **options
    )


class _Command:
    """A command on its way, through as many attempts as its patience allows."""

    __slots__ = ("_connection", "deadline", "future", "packed", "pause_s")

    def __init__(self, connection: Connection, packed: bytes, deadline: float | None) -> None:
        self._connection = connection
        self.packed = packed
        self.deadline = deadline
        self.pause_s = _FIRST_PAUSE_S
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def take(self, reply: Any, /) -> None:
        if self.future.done():
            return
        if not isinstance(reply, hiredis.ReplyError):
            self.future.set_result(reply)
            return
        text = str(reply)
        if text.startswith("NOSCRIPT"):
            self._connection._load_and_repeat(self)
        elif text.startswith(_NOT_NOW):
            self._connection._repeat_later(self, ResponseError(text))
        else:
            self.future.set_exception(ResponseError(text))

    def look_at_clock(self) -> None:
        """A Redis that is there and does not answer must not hold its callers for longer than one that is gone."""
        if self.is_out_of_patience():
            self.give_up(TimeoutError("no reply in time"))

    def is_out_of_patience(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline

    def give_up(self, error: Exception) -> None:
        if not self.future.done():
            unavailable = StoreUnavailable(
                f"Redis does not take this now ({error}); whether it was done is not certain, try again"
            )
            unavailable.__cause__ = error
            self.future.set_exception(unavailable)


class _Load:
    """A script on its way into Redis; its reply is its hash, which is known."""

    def __init__(self, source: bytes) -> None:
        self.packed = hiredis.pack_command(("SCRIPT", "LOAD", source))  # type: ignore[arg-type]

    def take(self, _reply: Any, /) -> None:
        return

    def look_at_clock(self) -> None:
        return


class Connection:
    """Commands and scripts on one Redis. ``patience_s``: how long a command is tried again while Redis cannot
    answer; then StoreUnavailable. None: for ever (workers, whose token decides what a late write is worth)."""

    def __init__(self, redis: aioredis.Redis, patience_s: float | None = 5.0) -> None:
        self.redis = redis
        self.patience_s = patience_s
        self._waiting: list[Request] = []
        self._link: Link | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._paused: set[_Command] = set()
        self._flushing = False
        self._closed = False

    async def command(self, *args: Any) -> Any:
        """One command; its reply as Redis sent it (bytes, ints, lists). Raises StoreUnavailable, redis' ResponseError,
        and TypeError or UnicodeEncodeError for what cannot be sent."""
        deadline = None if self.patience_s is None else time.monotonic() + self.patience_s
        command = _Command(self, hiredis.pack_command(args), deadline)
        self._enqueue(command)
        return await command.future

    async def script(self, name: str, keys: list[str], args: list[Any]) -> list[Any]:
        return cast(list[Any], await self.command("EVALSHA", SHA[name], len(keys), *keys, *args))

    async def load_scripts(self) -> None:
        """Raises StoreUnavailable."""
        await asyncio.gather(*(self.command("SCRIPT", "LOAD", source) for source in SOURCE.values()))

    def _enqueue(self, *requests: Request) -> None:
        self._waiting += requests
        if self._link is None:
            if self._connecting is None and not self._closed:
                self._connecting = asyncio.create_task(self._connect(), name="store-connect")
        elif not self._flushing:
            self._flushing = True
            # Not at once: what other callers ask for in this tick goes with it.
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if self._link is not None and self._waiting:
            waiting, self._waiting = self._waiting, []
            self._link.send(waiting)

    async def _connect(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._closed:
            try:
                self._link = await Link.open(self.redis, self._on_break)
                break
            except AuthenticationError as error:
                self._give_up(error, lambda _: True)
                break
            except (RedisConnectionError, RedisTimeoutError, ResponseError, OSError) as error:
                self._give_up(error, lambda command: command.is_out_of_patience())
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
        self._connecting = None
        self._flush()

    def _give_up(self, error: Exception, hopeless: Any) -> None:
        commands = [request for request in self._waiting if isinstance(request, _Command)]
        self._waiting = [c for c in commands if not c.future.done() and not hopeless(c)]
        for command in commands:
            if hopeless(command):
                command.give_up(error)

    def _on_break(self, error: Exception, unanswered: list[Request]) -> None:
        self._link = None
        self._waiting = [*unanswered, *self._waiting]
        self._give_up(error, lambda command: command.is_out_of_patience())
        if self._waiting:
            self._enqueue()

    def _load_and_repeat(self, command: _Command) -> None:
        """Redis was restarted or its scripts flushed: load them all, and then the same again."""
        self._enqueue(*(_Load(source) for source in SOURCE.values()), command)

    def _repeat_later(self, command: _Command, error: Exception) -> None:
        if command.is_out_of_patience():
            command.give_up(error)
            return
        self._paused.add(command)
        asyncio.get_running_loop().call_later(command.pause_s, self._repeat, command)
        command.pause_s = min(command.pause_s * 2, _LONGEST_PAUSE_S)

    def _repeat(self, command: _Command) -> None:
        self._paused.discard(command)
        if not command.future.done():
            self._enqueue(command)

    async def aclose(self) -> None:
        """Whoever still waits for an answer is cancelled."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        unanswered = await self._link.aclose() if self._link is not None else []
        self._link = None
        for request in [*unanswered, *self._waiting, *self._paused]:
            if isinstance(request, _Command):
                request.future.cancel()
        self._waiting.clear()
        await self.redis.aclose()
