"""One multiplexed way to Redis: the commands of one event-loop tick leave in one pipeline.

A redis-py call of its own costs about 130 us of CPU, a place in a pipeline about 30. Every write that goes through
here is a script that is safe to repeat, so a lost reply is answered by sending the same batch again; redis-py's
own retries are off, because they would repeat it unseen and with their own idea of time.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from importlib import resources
from typing import Any

from redis import asyncio as aioredis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    BusyLoadingError,
    ConnectionError as RedisConnectionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TimeoutError as RedisTimeoutError,
)

from protocol.errors import StoreUnavailable

SCRIPTS = ("accept", "claim", "commit", "settle", "release", "erase", "wake")

# Error replies that say "not now" and not "never": the store is loading, read-only, full, or failing over.
_NOT_NOW = ("LOADING", "READONLY", "OOM", "MISCONF", "MASTERDOWN", "NOREPLICAS", "TRYAGAIN", "CLUSTERDOWN", "BUSY ")
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 1.0
_IN_FLIGHT = 4  # pipelines under way at once: while one waits for its fsync, the next may leave


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


def _is_not_now(error: Exception) -> bool:
    if isinstance(error, BusyLoadingError | ReadOnlyError | OutOfMemoryError):
        return True
    return isinstance(error, ResponseError) and str(error).startswith(_NOT_NOW)


class _Command:
    __slots__ = ("args", "deadline", "future")

    def __init__(self, args: tuple[Any, ...], deadline: float | None) -> None:
        self.args = args
        self.deadline = deadline
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class Connection:
    """Commands and scripts on one Redis. ``patience_s``: how long a command is tried again while Redis cannot
    answer; then StoreUnavailable. None: for ever (workers, whose token decides what a late write is worth)."""

    def __init__(self, redis: aioredis.Redis, patience_s: float | None = 5.0) -> None:
        # Replies as Redis sends them (RESP2): redis-py's conversions per command cost more than the commands here.
        redis.response_callbacks.clear()
        self.redis = redis
        self.patience_s = patience_s
        self._waiting: list[_Command] = []
        self._senders: set[asyncio.Task[None]] = set()

    async def command(self, *args: Any) -> Any:
        """One command; its reply (bytes, ints, lists). Raises StoreUnavailable or redis' ResponseError."""
        deadline = None if self.patience_s is None else time.monotonic() + self.patience_s
        command = _Command(args, deadline)
        self._waiting.append(command)
        if len(self._senders) < _IN_FLIGHT and len(self._waiting) == 1:
            self._start_sender()
        return await command.future

    async def script(self, name: str, keys: list[str], args: list[Any]) -> list[Any]:
        reply: list[Any] = await self.command("EVALSHA", SHA[name], len(keys), *keys, *args)
        return reply

    def _start_sender(self) -> None:
        task = asyncio.create_task(self._send(), name="store-connection")
        self._senders.add(task)

    async def _send(self) -> None:
        try:
            await asyncio.sleep(0)  # lets the other callers of this tick join the batch
            while self._waiting:
                batch, self._waiting = self._waiting, []
                try:
                    await self._deliver_each(batch)
                finally:
                    for command in batch:
                        command.future.cancel()  # whoever was not answered: this connection is being closed
        finally:
            # Here and not in a done callback, which runs a tick later: a command that comes in between would
            # count a sender that no longer looks, and wait for ever.
            self._senders.discard(asyncio.current_task())

    async def _deliver_each(self, batch: list[_Command]) -> None:
        """A command that cannot even be sent (a lone surrogate, a type that Redis has not) spoils its whole pipeline:
        then each goes alone, so that only its own caller is told."""
        try:
            await self._deliver(batch)
        except Exception as error:  # noqa: BLE001 -- raised to the caller, through its future
            if len(batch) == 1:
                batch[0].future.set_exception(error)
            else:
                for command in batch:
                    await self._deliver_each([command])

    async def _deliver(self, batch: list[_Command]) -> None:
        pause_s = _FIRST_PAUSE_S
        while batch := [command for command in batch if not command.future.done()]:
            try:
                replies = await self._pipeline(batch)
            except (RedisConnectionError, RedisTimeoutError, OSError) as error:
                replies = [error] * len(batch)
            if again := self._hand_out(batch, replies):
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            batch = again

    async def _pipeline(self, batch: list[_Command]) -> list[Any]:
        pipeline = self.redis.pipeline(transaction=False)
        for command in batch:
            pipeline.execute_command(*command.args)
        replies: list[Any] = await pipeline.execute(raise_on_error=False)
        if any(isinstance(reply, NoScriptError) for reply in replies):
            await self.load_scripts()
        return replies

    @staticmethod
    def _hand_out(batch: list[_Command], replies: list[Any]) -> list[_Command]:
        """Give each caller its reply; answers the commands that are to be sent again."""
        again = []
        for command, reply in zip(batch, replies, strict=True):
            if command.future.done():
                continue
            if not isinstance(reply, Exception):
                command.future.set_result(reply)
            elif isinstance(reply, NoScriptError):
                again.append(command)
            elif isinstance(reply, RedisConnectionError | RedisTimeoutError | OSError) or _is_not_now(reply):
                if command.deadline is None or time.monotonic() < command.deadline:
                    again.append(command)
                else:
                    unavailable = StoreUnavailable(
                        f"Redis does not take this now ({reply}); nothing was changed for certain, try again"
                    )
                    unavailable.__cause__ = reply
                    command.future.set_exception(unavailable)
            else:
                command.future.set_exception(reply)
        return again

    async def load_scripts(self) -> None:
        pipeline = self.redis.pipeline(transaction=False)
        for source in SOURCE.values():
            pipeline.script_load(source)
        await pipeline.execute()

    async def aclose(self) -> None:
        for task in list(self._senders):
            task.cancel()
        await asyncio.gather(*self._senders, return_exceptions=True)
        for command in self._waiting:
            command.future.cancel()
        await self.redis.aclose()
