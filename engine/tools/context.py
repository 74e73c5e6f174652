"""What a running tool may know about its call, and how it learns that nobody waits for it any more."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field


class Cancellation:
    """A flag that goes up once: the turn was cancelled, or the tool's time is over.

    Safe from any thread. A sync tool asks ``is_set()`` or blocks in ``wait_in_thread()``; an async tool awaits
    ``wait()``.
    """

    def __init__(self) -> None:
        self._flag = threading.Event()
        self._lock = threading.Lock()
        self._waiters: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def is_set(self) -> bool:
        return self._flag.is_set()

    def set(self) -> None:
        with self._lock:
            self._flag.set()
            waiters, self._waiters = self._waiters, set()
        for loop, woken in waiters:
            if not loop.is_closed():
                loop.call_soon_threadsafe(woken.set)

    def wait_in_thread(self, timeout_s: float | None = None) -> bool:
        """Block this thread until the flag is up or the time is over; answers ``is_set()``."""
        return self._flag.wait(timeout_s)

    async def wait(self) -> None:
        waiter = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            if self._flag.is_set():
                return
            self._waiters.add(waiter)
        try:
            await waiter[1].wait()
        finally:
            with self._lock:
                self._waiters.discard(waiter)


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Given to a tool that has a parameter annotated ``ToolContext``; the model never sees that parameter.

    ``call`` is the path of the call inside its turn (``2.0``). ``idempotency_key`` is the same for every attempt at
    this call, also after a crash, and different for every other call: hand it to the service that has the effect.
    """

    tenant: str
    environment: str
    agent: str
    session_id: str
    turn_id: str
    call: str
    idempotency_key: str
    cancelled: Cancellation = field(default_factory=Cancellation)
