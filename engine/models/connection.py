"""An SDK client, opened when it is first needed and shared by every turn of one event loop.

Importing an SDK takes seconds on a small machine, so it happens in a thread: a worker must go on renewing its
leases meanwhile. Which client with which settings is the provider's affair.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from protocol.errors import ModelRefused


class Connection:
    """``load`` imports the SDK and makes a client; it blocks, and runs once per event loop.

    A client keeps sockets that belong to the loop they were opened in, so each loop gets its own.
    """

    def __init__(self, load: Callable[[], Any]) -> None:
        self._load = load
        self._opening: dict[asyncio.AbstractEventLoop, asyncio.Task[Any]] = {}

    async def client(self) -> Any:
        """Raises ModelRefused when the SDK will not make a client; the next call tries again."""
        loop = asyncio.get_running_loop()
        if loop not in self._opening:
            self._forget_closed_loops()
            self._opening[loop] = loop.create_task(asyncio.to_thread(self._load))
        opening = self._opening[loop]
        try:
            # Shielded: several turns may wait for it, and one being cancelled must not take it from the others.
            return await asyncio.shield(opening)
        except Exception as error:
            if self._opening.get(loop) is opening:
                del self._opening[loop]
            raise ModelRefused(f"the model's client cannot be opened: {error}") from error

    async def aclose(self) -> None:
        """Close this loop's client. The connection may be used again: it opens another one."""
        opening = self._opening.pop(asyncio.get_running_loop(), None)
        if opening is not None:
            await (await opening).close()

    def _forget_closed_loops(self) -> None:
        for loop in [loop for loop in self._opening if loop.is_closed()]:
            del self._opening[loop]
