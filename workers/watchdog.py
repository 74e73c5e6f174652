"""The end of a process whose event loop stands still: a tool that blocks in C code takes all other turns with it.

The clock runs outside of Python (faulthandler's own thread needs no interpreter lock), so code that never gives the
lock back is no way out. The process ends with exit code 1 after writing where each thread stood; its supervisor starts
another, and its turns go on elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import sys
from collections.abc import AsyncIterator

_TICK_S = 0.5


@contextlib.asynccontextmanager
async def watched_loop(blocked_s: float) -> AsyncIterator[None]:
    """Ends this process when its running event loop has not ticked for ``blocked_s``. Once in a process at a time."""

    async def tick() -> None:
        while True:
            faulthandler.dump_traceback_later(blocked_s, exit=True, file=sys.__stderr__ or sys.stderr)
            await asyncio.sleep(_TICK_S)

    ticking = asyncio.create_task(tick(), name="watchdog")
    try:
        yield
    finally:
        ticking.cancel()
        await asyncio.gather(ticking, return_exceptions=True)
        faulthandler.cancel_dump_traceback_later()
