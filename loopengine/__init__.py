"""The front door: what the authors of agents and tools import.

Names are loaded when they are first used, so that ``import loopengine`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.agents.agent import Agent
    from engine.tools.context import ToolContext
    from engine.tools.decorator import tool

__all__ = ["Agent", "ToolContext", "tool"]

_HOME = {
    "Agent": "engine.agents.agent",
    "ToolContext": "engine.tools.context",
    "tool": "engine.tools.decorator",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'loopengine' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value
