"""Agent folders for tests, written as authors write them."""

from __future__ import annotations

from pathlib import Path

from engine.agents.registry import AgentRegistry
from engine.settings import Settings

YAML = "systemPrompt: You help.\nmodel: {provider: scripted, script: script.yml}\n"
SCRIPT = "conversations:\n  - steps: [{text: Hello}]\n"
TOOL = '''
from loopengine import tool


@tool
def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"
'''


def write_agent(agents: Path, name: str, **files: str) -> Path:
    """``files``: content by path, dots of the path written as double underscores (``tools__look__py``)."""
    folder = agents / name
    for key, content in {"agent__yml": YAML, "script__yml": SCRIPT, **files}.items():
        parts = key.split("__")
        path = folder.joinpath(*parts[:-2], f"{parts[-2]}.{parts[-1]}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def registry(agents: Path, clock: Clock | None = None) -> AgentRegistry:
    return AgentRegistry(agents, Settings(), clock=clock or Clock())
