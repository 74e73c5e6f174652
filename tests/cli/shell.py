"""A shell for tests: runs ``loopengine`` as a real process in a project of its own, stdout and stderr apart."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent.parent
PRODUCT = (sys.executable, "-P", "-m", "loopengine")
WITHIN_S = 60.0

Json = dict[str, Any]


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    out: bytes
    err: str

    @property
    def records(self) -> list[Json]:
        """stdout as NDJSON, split at LF only; anything else on it fails the test."""
        assert self.out == b"" or self.out.endswith(b"\n"), self.out[-200:]
        records: list[Json] = [json.loads(line, parse_constant=_refuse) for line in self.out.split(b"\n")[:-1]]
        assert all(isinstance(record, dict) and isinstance(record["type"], str) for record in records)
        return records

    @property
    def types(self) -> list[str]:
        return [record["type"] for record in self.records]

    @property
    def text(self) -> str:
        return self.out.decode()


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


@dataclass
class Shell:
    """``folder`` is where its commands run; ``env`` comes on top of the test's own environment."""

    folder: Path
    env: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: str, env: Mapping[str, str] | None = None) -> Ended:
        """Run ``loopengine ARGUMENTS`` without a terminal, to its end."""
        ended = subprocess.run(
            [*PRODUCT, *arguments],
            cwd=self.folder,
            env=self.environment(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=WITHIN_S,
        )
        result = Ended(ended.returncode, ended.stdout, ended.stderr.decode(errors="replace"))
        assert "Traceback" not in result.err, result.err
        return result

    def sh(self, script: str, env: Mapping[str, str] | None = None) -> Ended:
        """Run a shell script in which ``$LOOPENGINE`` is the command."""
        ended = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env={**self.environment(env), "LOOPENGINE": " ".join(PRODUCT)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=WITHIN_S,
        )
        result = Ended(ended.returncode, ended.stdout, ended.stderr.decode(errors="replace"))
        assert "Traceback" not in result.err, result.err
        return result

    def environment(self, env: Mapping[str, str] | None = None) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(REPOSITORY), **self.env, **(env or {})}

    def park(self, *arguments: str) -> str:
        """Run the refund up to its approval; the id of the item."""
        parked = self.run("run", "customer-service", "--json", *arguments, "refund A-1001")
        assert parked.code == 3, parked.err
        item: str = parked.records[-1]["id"]
        return item


class Terminal:
    """A command at a terminal of its own: what is typed is what it reads, what it shows is ``shown``."""

    def __init__(self, shell: Shell, *arguments: str) -> None:
        self._master, slave = pty.openpty()
        self._child = subprocess.Popen(
            [*PRODUCT, *arguments],
            cwd=shell.folder,
            env=shell.environment(),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.shown = ""
        self._read_to = 0

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child.poll() is None:
            self._child.kill()
        self._child.wait()
        os.close(self._master)

    def wait_for(self, text: str) -> None:
        """Returns when ``text`` is shown behind what was waited for before."""
        deadline = time.monotonic() + WITHIN_S
        while (at := self.shown.find(text, self._read_to)) < 0:
            assert time.monotonic() < deadline, f"no {text!r} in:\n{self.shown}"
            assert self._read() or self.shown.find(text, self._read_to) >= 0, f"ended without {text!r}:\n{self.shown}"
        self._read_to = at + len(text)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def signal(self, number: signal.Signals) -> None:
        self._child.send_signal(number)

    def end(self) -> int:
        """The exit code."""
        while self._read():
            pass
        return self._child.wait(WITHIN_S)

    def _read(self) -> bool:
        """False: the command has ended and everything it showed was read."""
        if not select.select([self._master], [], [], 0.1)[0]:
            return self._child.poll() is None
        try:
            data = os.read(self._master, 65536)
        except OSError:  # EIO: the other end is closed
            return False
        self.shown += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)
