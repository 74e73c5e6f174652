"""The context of a call, for tests."""

from __future__ import annotations

from typing import Any

from engine.tools.context import ToolContext
from engine.tools.decorator import tool
from engine.tools.run import ToolOutcome, run_tool
from engine.tools.tool import Tool


def a_context() -> ToolContext:
    return ToolContext("acme", "test", "shop", "s1", "t_1", "2.0", "key-1")


async def run(
    function: Any, args: dict[str, Any] | None = None, timeout_s: float = 30.0, context: ToolContext | None = None
) -> ToolOutcome:
    one = function if isinstance(function, Tool) else tool(function)
    return await run_tool(one, args or {}, context or a_context(), timeout_s)
