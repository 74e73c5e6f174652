"""``dev``: API and worker as processes of their own, ended and started again when an agent's Python changes.

The store belongs to this process, so it stays through every restart.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

from loopengine.cli import exits
from loopengine.cli.child import Child, product_command
from loopengine.cli.deployment import deployed, load_settings
from loopengine.cli.options import Where
from loopengine.cli.serving import worker_child
from loopengine.cli.streams import say
from protocol.errors import ConfigurationError

_API_PATIENCE_S = 10.0


def develop(host: str | None, port: int | None, where: Where) -> int:
    """The exit code, after SIGTERM or SIGINT. Raises LoopEngineError."""
    settings = load_settings(where, host=host, port=port)
    if not settings.agents_dir.is_dir():
        words = f"there is no folder {settings.agents_dir}: make one folder per agent in it"
        raise ConfigurationError("LOOPENGINE_AGENTS_DIR", None, words)
    place = [] if where.redis_url is None else ["--redis-url", where.redis_url]
    api = ["serve", "--no-worker", "--host", settings.host, "--port", str(settings.port), *place]
    with deployed(settings, where.redis_url):
        children = [
            Child("api", product_command(*api), _API_PATIENCE_S),
            worker_child(where, settings.drain_s),
        ]
        asyncio.run(_develop(children, settings.agents_dir))
    return exits.DONE


async def _develop(children: list[Child], agents_dir: Path) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    keeping = [asyncio.create_task(child.keep(), name=child.name) for child in children]
    try:
        async for changed in _changes(agents_dir, stop):
            say(f"changed: {changed}; restarting")
            await asyncio.gather(*(child.restart() for child in children))
    finally:
        for task in keeping:
            task.cancel()
        await asyncio.gather(*keeping, return_exceptions=True)


async def _changes(agents_dir: Path, stop: asyncio.Event) -> AsyncIterator[str]:
    """Names of what changed, several saves in a row as one, until ``stop``."""
    from watchfiles import Change, awatch

    def is_python(_change: Change, path: str) -> bool:
        return path.endswith(".py") and "__pycache__" not in path

    async for changes in awatch(agents_dir, watch_filter=is_python, stop_event=stop):
        paths = sorted({Path(path) for _, path in changes})
        yield ", ".join(f"{path.parent.name}/{path.name}" for path in paths)
