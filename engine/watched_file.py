"""Notices, for the price of one stat, that a file may have changed.

It owns no content: the caller reads the file when ``changed`` says so and compares. A file that was written less than
two seconds ago is always "maybe changed", because a second write in the same tick of the file system's clock leaves
the stat as it was.
"""

from __future__ import annotations

import time
from pathlib import Path

_YOUNG_S = 2.0

State = tuple[int, int, int, int] | None


class WatchedFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._state: State = None
        self._is_new = True

    def changed(self) -> bool:
        """Whether the file may differ from the last time this was asked. A missing file is a state like others."""
        state = self._look()
        is_same = state == self._state and not self._is_new
        self._state, self._is_new = state, False
        return not is_same or self._is_young(state)

    def _look(self) -> State:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino

    def _is_young(self, state: State) -> bool:
        return state is not None and abs(time.time() - state[1] / 1e9) < _YOUNG_S
