"""The fake as a process of its own, for tests that kill workers and must not kill the provider with them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fake_provider.script import Entry

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class FakeProcess:
    url: str
    log: Path
    pid: int

    @property
    def anthropic_url(self) -> str:
        return self.url

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    @property
    def lines(self) -> list[dict[str, Any]]:
        """model.log: wire, path, refused and body of each request."""
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    @property
    def requests(self) -> list[dict[str, Any]]:
        return [line["body"] or {} for line in self.lines]

    @property
    def refusals(self) -> list[str]:
        return [line["refused"] for line in self.lines if line["refused"] is not None]


@contextmanager
def running_fake(
    script: list[Entry] | dict[str, list[Entry]],
    folder: Path,
    *,
    otherwise: Entry | None = None,
    max_bytes: int | None = None,
) -> Iterator[FakeProcess]:
    """Starts ``python -m tests.fake_provider``; its script and model.log are files in ``folder``."""
    script_file, log = folder / "fake_script.json", folder / "model.log"
    script_file.write_text(json.dumps({"script": script, "otherwise": otherwise}))
    command = [
        sys.executable,
        "-m",
        "tests.fake_provider",
        "--script",
        str(script_file),
        "--log",
        str(log),
        "--attached",
    ]
    if max_bytes is not None:
        command += ["--max-bytes", str(max_bytes)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            assert url.startswith("http://"), "the fake provider did not start: see its words on stderr"
            yield FakeProcess(url, log, process.pid)
        finally:
            process.terminate()
