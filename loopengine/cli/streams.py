"""The process's stdout and stderr. stdout belongs to the records and answers of the command alone.

From `take_stdout` on, whatever else writes to file descriptor 1 (a tool that prints, a program that a tool starts)
ends up on stderr, and stderr itself never raises: a full disk or a closed terminal is no reason to lose a turn.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import re
import select
import sys
from typing import Any

_FIRST_FREE_FD = 3
# A pipe that polls as writable takes this much without blocking (PIPE_BUF), and blocking would stop the event loop.
_CHUNK = 4096
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """Text for a person's eyes: what could move the cursor or reorder a line is shown as its escape."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def say(*lines: str) -> None:
    """Talk to the person: stderr, one line each."""
    for line in lines:
        print(visible(line), file=sys.stderr, flush=True)  # noqa: T201 -- the one place that talks


class Output:
    """The real stdout. The first failure ends it; writing on is allowed and does nothing."""

    def __init__(self, fd: int | None, encoding: str) -> None:
        self._fd = fd
        self._encoding = encoding
        self.problem: OSError | None = None if fd is not None else OSError(errno.EBADF, os.strerror(errno.EBADF))

    @property
    def is_closed(self) -> bool:
        """Nobody reads (any more): not an error, but no reason to go on only for the reader's sake."""
        return self.problem is not None and self.problem.errno in (errno.EPIPE, errno.EBADF, errno.ECONNRESET)

    @property
    def failure(self) -> str | None:
        """Why output was lost although somebody wanted it."""
        return self.problem.strerror if self.problem is not None and not self.is_closed else None

    async def record(self, value: bytes | dict[str, Any]) -> None:
        """One line of NDJSON; bytes are JSON in one line already."""
        from protocol import json_text, ndjson

        await self._write(ndjson.line(value if isinstance(value, bytes) else json_text.dumps(value)))

    async def text(self, text: str) -> None:
        """Lines for a person; what the terminal's encoding lacks is shown as an escape."""
        await self._write(f"{visible(text)}\n".encode(self._encoding, "backslashreplace"))

    async def _write(self, data: bytes) -> None:
        for start in range(0, len(data), _CHUNK):
            chunk = data[start : start + _CHUNK]
            while chunk and self.problem is None and self._fd is not None:
                try:
                    if not select.select([], [self._fd], [], 0)[1]:
                        await self._room(self._fd)
                    chunk = chunk[os.write(self._fd, chunk) :]
                except BlockingIOError:
                    await self._room(self._fd)
                except OSError as problem:
                    self.problem = problem

    @staticmethod
    async def _room(fd: int) -> None:
        import asyncio  # costs --help more than everything else here

        loop = asyncio.get_running_loop()
        room = asyncio.Event()
        loop.add_writer(fd, room.set)
        try:
            await room.wait()
        finally:
            loop.remove_writer(fd)


class _Stderr(io.FileIO):
    """File descriptor 2 without errors."""

    def __init__(self) -> None:
        super().__init__(2, "wb", closefd=False)

    def write(self, data: Any) -> int:
        rest = bytes(data)
        with contextlib.suppress(OSError):
            while rest:
                rest = rest[os.write(2, rest) :]
        return len(data)


def take_stdout() -> Output:
    """Make stdout the command's own for the rest of the process. Call it once, before anything else may write."""
    was_open = [_make_sure_open(fd) for fd in (0, 1, 2)][1]
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    fd = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_FD) if was_open else None
    os.dup2(2, 1)
    talk_encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    talk = io.TextIOWrapper(_Stderr(), talk_encoding, "backslashreplace", line_buffering=True, write_through=True)
    sys.stdout = sys.stderr = talk
    # None where the descriptor was closed, which breaks whoever trusts these to be files.
    sys.__stdout__ = sys.__stdout__ or talk  # type: ignore[misc]
    sys.__stderr__ = sys.__stderr__ or talk  # type: ignore[misc]
    return Output(fd, encoding)


def _make_sure_open(fd: int) -> bool:
    """A closed standard descriptor would be given to the next file or socket, and others' prints would land there."""
    try:
        os.fstat(fd)
    except OSError:
        null = os.open(os.devnull, os.O_RDWR)
        if null != fd:
            os.dup2(null, fd)
            os.close(null)
        return False
    return True
