"""``serve``: the API in this process, a worker in one of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from api.app import create_app
from api.serve import serve
from engine.runtime import Runtime
from loopengine.cli import exits
from loopengine.cli.child import Child, product_command
from loopengine.cli.deployment import Deployment, deployed, load_settings, opened
from loopengine.cli.options import Where
from loopengine.cli.streams import say
from loopengine.cli.working import check_store

_AFTER_DRAIN_S = 10.0
_FIRST_BEAT_S = 10.0
_LOOK_S = 0.05


def serve_api(host: str | None, port: int | None, worker: bool | None, open_to_all: bool, where: Where) -> int:
    """The exit code, after SIGTERM or SIGINT. Raises LoopEngineError."""
    settings = load_settings(where, host=host, port=port)
    with deployed(settings, where.redis_url) as deployment:
        check_store(deployment)
        brings_worker = deployment.embedded is not None if worker is None else worker
        asyncio.run(_serve(deployment, where, brings_worker, open_to_all))
    return exits.DONE


async def _serve(deployment: Deployment, where: Where, brings_worker: bool, open_to_all: bool) -> None:
    settings = deployment.settings

    def on_ready(url: str) -> None:
        say(f"listening on {url}")

    async with opened(deployment) as runtime, _worker(deployment, where, brings_worker):
        if brings_worker:
            await _first_beat(runtime)
        app = create_app(runtime, settings)
        await serve(app, settings.host, settings.port, on_ready=on_ready, open_to_all=open_to_all)


async def _first_beat(runtime: Runtime) -> None:
    """The first request is not to be told that nobody works. But requests are taken in any case after a while: a
    worker that does not come is started again, and turns are kept until it does."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_FIRST_BEAT_S):
            while not await runtime.workers_alive():  # noqa: ASYNC110 -- nothing tells of a first beat
                await asyncio.sleep(_LOOK_S)


@contextlib.asynccontextmanager
async def _worker(deployment: Deployment, where: Where, is_wanted: bool) -> AsyncIterator[None]:
    if not is_wanted:
        yield
        return
    child = worker_child(where, deployment.settings.drain_s)
    keeping = asyncio.create_task(child.keep(), name="worker process")
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


def worker_child(where: Where, drain_s: float) -> Child:
    place = [] if where.redis_url is None else ["--redis-url", where.redis_url]
    return Child("worker", product_command("worker", *place), drain_s + _AFTER_DRAIN_S)
