"""Real processes for tests: started with a clean environment, waited for by state, and gone when the test ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

REPOSITORY = Path(__file__).resolve().parent.parent


def eventually(state: Callable[[], T], within_s: float = 20.0) -> T:
    """Wait until ``state()`` is true and give its value; AssertionError after ``within_s``."""
    deadline = time.monotonic() + within_s
    while not (value := state()):
        assert time.monotonic() < deadline, f"still {value!r} after {within_s} s"
        time.sleep(0.01)
    return value


async def eventually_async(state: Callable[[], Awaitable[T]], within_s: float = 20.0) -> T:
    deadline = time.monotonic() + within_s
    while not (value := await state()):
        assert time.monotonic() < deadline, f"still {value!r} after {within_s} s"
        await asyncio.sleep(0.01)
    return value


def is_alive(pid: int) -> bool:
    """A zombie, dead and not yet reaped by its parent, is not alive."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def kill(pid: int) -> None:
    """kill -9, and wait until the process is gone."""
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not is_alive(pid))


class Process:
    """A running child; ``output`` is what it has written so far (stdout and stderr)."""

    def __init__(self, child: subprocess.Popen[bytes], log: Path) -> None:
        self._child = child
        self._log = log

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def output(self) -> str:
        return self._log.read_text(errors="replace")

    def wait_for_output(self, text: str, within_s: float = 20.0) -> str:
        """The first line that contains ``text``. A process that ends without it fails the test with its output."""

        def line() -> str | None:
            ended = self._child.poll() is not None
            for written in self.output.splitlines():
                if text in written:
                    return written
            assert not ended, f"ended ({self._child.returncode}) without writing {text!r}:\n{self.output}"
            return None

        return eventually(line, within_s) or ""

    def signal(self, number: signal.Signals) -> None:
        self._child.send_signal(number)

    def wait(self, within_s: float = 20.0) -> int:
        """The exit code; minus the signal's number if one killed it."""
        return self._child.wait(within_s)


@contextmanager
def running(
    command: Sequence[str], log: Path, *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> Iterator[Process]:
    """Run ``command`` in a process group of its own, with output to ``log``; killed with its group at the end."""
    with log.open("ab") as output:
        child = subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1", **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield Process(child, log)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def running_python(
    source: str, log: Path, *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> AbstractContextManager[Process]:
    """Run a small program against the product's packages."""
    return running([sys.executable, "-c", source, *arguments], log, cwd=cwd, env=env)


def running_product(
    arguments: Sequence[str], log: Path, *, cwd: Path, env: Mapping[str, str] | None = None
) -> AbstractContextManager[Process]:
    """Run ``loopengine ...`` in ``cwd``."""
    return running([sys.executable, "-m", "loopengine", *arguments], log, cwd=cwd, env=env)
