"""A process that a command keeps beside itself: started again when it ends, told to end with the command.

It ends with its parent however that ends (engine.tethered), so it must be started from the main thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

import structlog

from engine.tethered import TETHER_SIGNAL, start_tethered

log = structlog.get_logger("loopengine.cli")

_LOOK_S = 0.05
_LONG_LIFE_S = 5.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 10.0


def product_command(*words: str) -> list[str]:
    """``loopengine ...`` by this very interpreter. -P: a folder `api` or `engine` where the user stands is not ours."""
    return [sys.executable, "-P", "-m", "loopengine", *words]


class Child:
    """``patience_s``: how long it may take to end when it is told to."""

    def __init__(self, name: str, command: Sequence[str], patience_s: float) -> None:
        self.name = name
        self._command = list(command)
        self._patience_s = patience_s
        self._process: subprocess.Popen[bytes] | None = None
        self._restarting = False

    async def keep(self) -> None:
        """Run it until cancelled; then it has ended when this returns. A child that dies early is given time."""
        pause_s = _FIRST_PAUSE_S
        try:
            while True:
                started = time.monotonic()
                self._process = start_tethered(self._command, death_signal=TETHER_SIGNAL)
                code = await self._end_of(self._process)
                if self._restarting:
                    self._restarting = False
                    continue
                pause_s = (
                    _FIRST_PAUSE_S if time.monotonic() - started > _LONG_LIFE_S else min(pause_s * 2, _LONGEST_PAUSE_S)
                )
                log.warning("a process ended and is started again", process=self.name, exit_code=code, in_s=pause_s)
                await asyncio.sleep(pause_s)
        finally:
            await self._stop()

    async def restart(self) -> None:
        """End it gracefully; it is started again at once. Not for a child that is being given time anyway."""
        if self._process is not None and self._process.poll() is None:
            self._restarting = True
            await self._stop()

    async def _stop(self) -> None:
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience_s):
                await self._end_of(process)
            return
        log.warning("a process does not end and is killed; others go on with its turns", process=self.name)
        process.kill()
        await self._end_of(process)

    @staticmethod
    async def _end_of(process: subprocess.Popen[bytes]) -> int:
        while (code := process.poll()) is None:  # noqa: ASYNC110 -- asyncio has no event for it
            await asyncio.sleep(_LOOK_S)
        return code
