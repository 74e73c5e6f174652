"""A real worker process whose slots are played from files: ``python worker_program.py URL FOLDER [NAME]``.

Each pump adds the line "pump" to FOLDER/log; while FOLDER/hold exists it lasts. FOLDER/full: no slot is free.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.settings import Settings
from workers.worker import run_worker


class PlayedSlots:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._draining = False

    def _note(self, line: str) -> None:
        with (self._folder / "log").open("a") as log:
            log.write(line + "\n")

    async def _while(self, condition: Callable[[], bool]) -> None:
        while condition():  # noqa: ASYNC110  (a file has no event)
            await asyncio.sleep(0.005)

    def free(self) -> int:
        return 0 if (self._folder / "full").exists() else 100

    async def pump(self) -> None:
        self._note("pump")
        if (self._folder / "fail").exists():
            raise RuntimeError("the slots are broken")
        await self._while(lambda: (self._folder / "hold").exists() and not self._draining)
        self._note("pumped")

    async def start(self) -> None:
        self._note("start")

    async def drain(self, grace_s: float) -> None:
        self._note("drain")
        await self._while((self._folder / "undrained").exists)
        self._draining = True

    async def aclose(self) -> None:
        self._note("closed")


async def open_played(settings: Settings, *, redis_url: str, worker: str) -> Any:
    return PlayedSlots(Path(sys.argv[2]))


if __name__ == "__main__":
    name = sys.argv[3] if len(sys.argv) > 3 else None
    sys.exit(run_worker(Settings(), redis_url=sys.argv[1], name=name, open_slots=open_played))
