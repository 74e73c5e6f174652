"""The processes that the benchmark measures: ``python -m tests.bench.programs api|worker``, configured as usual."""

from __future__ import annotations

import asyncio
import sys

from api.app import create_app
from api.serve import serve
from engine.runtime import open_runtime
from engine.settings import Settings
from workers.slots import open_slots
from workers.worker import run_worker


async def api(settings: Settings, redis_url: str) -> None:
    runtime = await open_runtime(settings, redis_url=redis_url)
    try:
        app = create_app(runtime, settings)
        await serve(app, settings.host, settings.port, on_ready=lambda url: print(f"listening on {url}", flush=True))
    finally:
        await runtime.aclose()


def main(program: str) -> int:
    settings = Settings()
    redis_url = settings.redis_url
    assert redis_url, "REDIS_URL is not set"
    if program == "api":
        asyncio.run(api(settings, redis_url))
        return 0
    return run_worker(settings, redis_url=redis_url, name=None, open_slots=open_slots)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
