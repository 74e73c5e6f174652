"""What users import."""

from __future__ import annotations

import subprocess
import sys

import pytest

import loopengine
from engine.agents.agent import Agent
from engine.tools.context import ToolContext
from engine.tools.decorator import tool


def test_the_front_door_gives_agent_tool_and_tool_context() -> None:
    assert (loopengine.Agent, loopengine.ToolContext, loopengine.tool) == (Agent, ToolContext, tool)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        loopengine.nothing  # noqa: B018


def test_importing_it_loads_nothing_else_and_never_a_provider() -> None:
    code = (
        "import sys, loopengine; assert not any(name.startswith(('engine', 'pydantic')) for name in sys.modules);"
        "from loopengine import Agent, tool, ToolContext;"
        "assert not {'anthropic', 'openai', 'redis', 'fastapi'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
