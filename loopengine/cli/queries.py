"""Commands that look or change something and end: no worker, no following."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from engine.runtime import Runtime
from loopengine.cli import exits
from loopengine.cli.deployment import Deployment, deployed, load_settings, opened
from loopengine.cli.options import Where
from loopengine.cli.streams import Output, say


def query(where: Where, output: Output, work: Callable[[Runtime], Awaitable[None]]) -> int:
    """Do ``work`` with the store running; the exit code. Raises LoopEngineError."""
    settings = load_settings(where, log_level="warning")
    with deployed(settings, where.redis_url) as deployment:
        asyncio.run(_query(deployment, work))
    return code_of(output)


async def _query(deployment: Deployment, work: Callable[[Runtime], Awaitable[None]]) -> None:
    async with opened(deployment) as runtime:
        await work(runtime)


def code_of(output: Output, code: int = exits.DONE) -> int:
    """``code``, unless the output did not get where it should."""
    if output.failure is not None:
        say(f"loopengine: stdout could not be written: {output.failure}")
        return exits.FAILED
    return exits.CLOSED_PIPE if output.is_closed else code
