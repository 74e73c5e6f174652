"""The agent of the cases: a folder whose tools write what they do into a plain file, where doubled work shows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Wire = Literal["openai", "anthropic"]
AGENT = "ledger"

RULES = [
    '{scope: "acme/test", tool: "read_note", decision: allow}',
    '{scope: "acme/test", tool: "ledger_add", decision: ask}',
    '{scope: "acme/test", tool: "wipe_all", decision: deny}',
]
"""The cases' actauth.base.yml, below ``default_decision: ask``."""

_TOOLS = '''
import os
import time

from loopengine import ToolContext, tool


def note(line):
    with open(os.environ["LEDGER"], "a") as file:
        file.write(line + "\\n")
        file.flush()
        os.fsync(file.fileno())


def add(key, amount, secs):
    note(f"begin {key} {amount!r} pid={os.getpid()}")
    time.sleep(secs)
    note(f"end {key}")
    return f"added {key}"


@tool
def ledger_add(key: str, amount: int | None = None, secs: float = 0, before: float = 0) -> str:
    """Add to the ledger, after ``before`` seconds."""
    time.sleep(before)
    return add(key, amount, secs)


@tool(idempotent=True)
def idempotent_add(key: str, context: ToolContext, amount: int | None = None, secs: float = 0) -> str:
    """Add to the ledger, safe to repeat."""
    note(f"key {context.idempotency_key}")
    return add(key, amount, secs)


@tool(on_interrupt="fail")
def failing_add(key: str, amount: int | None = None, secs: float = 0) -> str:
    """Add to the ledger; the model is told when the outcome is unknown."""
    return add(key, amount, secs)


@tool(read_only=True)
def read_note() -> str:
    """Read the note."""
    note("read")
    return "the note says hi"


@tool
def echo(text: str) -> str:
    """Say it again."""
    return text


@tool
def wipe_all() -> str:
    """Wipe everything."""
    note("WIPED")
    return "wiped"
'''


def write_agent(agents: Path, wire: Wire, rules: list[str], name: str = AGENT) -> None:
    folder = agents / name
    (folder / "tools").mkdir(parents=True)
    settings = {"systemPrompt": "You keep a ledger.", "model": {"provider": wire, "model": "fake"}, "maxTurns": 60}
    (folder / "agent.yml").write_text(json.dumps(settings))
    (folder / "tools" / "ledger.py").write_text(_TOOLS)
    (folder / "actauth.yml").write_text("default_decision: ask\nrules:\n" + "".join(f"  - {rule}\n" for rule in rules))


@dataclass(frozen=True)
class Ledger:
    """What the tools did, in order, counted outside of Redis."""

    file: Path

    @property
    def lines(self) -> list[str]:
        return self.file.read_text().splitlines() if self.file.exists() else []

    def count(self, start: str) -> int:
        """Lines that begin with these words: ``begin k1``, ``end k1``, ``read``."""
        return sum(1 for line in self.lines if f"{line} ".startswith(f"{start} "))

    def begun(self) -> list[str]:
        """The keys of all ``begin`` lines, in order."""
        return [line.split()[1] for line in self.lines if line.startswith("begin ")]


def use(id_: str, tool: str, **args: Any) -> dict[str, Any]:
    """A tool_use block."""
    return {"type": "tool_use", "id": id_, "name": tool, "input": args}


def asks(*uses: dict[str, Any], **rest: Any) -> dict[str, Any]:
    """A model answer of these calls."""
    return {"blocks": list(uses), "stop": "tool_use", **rest}


def says(text: str, **rest: Any) -> dict[str, Any]:
    """A model answer of text."""
    return {"blocks": [{"type": "text", "text": text}], "stop": "end_turn", **rest}
