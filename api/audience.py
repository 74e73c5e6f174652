"""Work that lasts only while its client is there and the server stays: open streams and waiting POSTs.

Uvicorn does not cancel a request whose client left, and on SIGTERM it waits for open streams for ever. Both ends
reach the work here, as one timeout that is due at once.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

from starlette.types import Receive


class Farewell:
    """Said once, when the server begins to stop: ends every audience, also those that begin later."""

    def __init__(self) -> None:
        self.said = False
        self._present: set[Audience] = set()

    def say(self) -> None:
        """To be called in the event loop's thread. Safe to repeat."""
        self.said = True
        for audience in list(self._present):
            audience.end()

    def __len__(self) -> int:
        return len(self._present)

    def add(self, audience: Audience) -> None:
        self._present.add(audience)
        if self.said:
            audience.end()

    def remove(self, audience: Audience) -> None:
        self._present.discard(audience)


class Audience:
    """``async with Audience(receive, farewell) as audience:`` runs its block until it ends by itself, the client
    leaves or the server stops, whichever is first; the block is then left silently and the next line runs.

    ``gone``: the client left, nobody reads an answer. ``cut``: the block did not end by itself.
    The request's body must have been read before: what arrives meanwhile is thrown away.
    """

    def __init__(self, receive: Receive, farewell: Farewell) -> None:
        self.gone = False
        self.cut = False
        self._receive = receive
        self._farewell = farewell
        self._scope = asyncio.timeout(None)
        self._watcher: asyncio.Task[None] | None = None

    def end(self) -> None:
        if self._watcher is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())

    async def __aenter__(self) -> Audience:
        await self._scope.__aenter__()
        self._watcher = asyncio.create_task(self._watch())
        self._farewell.add(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._farewell.remove(self)
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None
        try:
            await self._scope.__aexit__(kind, error, trace)
        except TimeoutError:
            self.cut = True
        return self.cut

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        self.end()
