"""The rows that are no ratios: turns that wait for their model, turns that wait for a person, workers that die."""

from __future__ import annotations

import asyncio
import os
import signal
import time

from redis import asyncio as aioredis

from tests.bench.figure import Figure
from tests.bench.http_client import HttpClient
from tests.bench.product import Product
from tests.bench.rows import park_one, run_one
from tests.processes import eventually, eventually_async

PARKED = 500
DEATHS = 5


async def slow(product: Product, turns: int) -> Figure:
    """All turns at once, each with three model calls of 1 s, in the one worker process that is running."""
    clients = [await HttpClient.open(product.base_url) for _ in range(turns)]
    await run_one(clients[0])
    began = time.perf_counter()
    await asyncio.gather(*(run_one(http, "bench-slow") for http in clients))
    took = time.perf_counter() - began
    for http in clients:
        await http.aclose()
    title = f"{turns} turns of 3 model calls of 1 s, 1 worker process"
    return Figure(f"slow-{turns}", title, product.fsync, took, "s", f"{turns / took:.0f} turns/s")


async def parked(product: Product) -> Figure:
    """What a turn that waits for a person keeps in Redis: the growth of used_memory over PARKED of them."""
    clients = [await HttpClient.open(product.base_url) for _ in range(16)]
    async with aioredis.Redis.from_url(product.redis_url) as redis:
        for _ in range(8):
            await asyncio.gather(*(park_one(http) for http in clients))
        before = await _resting_bytes(redis)
        left = iter(range(PARKED))

        async def client(http: HttpClient) -> None:
            for _ in left:
                await park_one(http)

        await asyncio.gather(*(client(http) for http in clients))
        after = await _resting_bytes(redis)
    for http in clients:
        await http.aclose()
    kib = (after - before) / PARKED / 1024
    title = f"bytes in Redis of a parked turn, over {PARKED}"
    return Figure("parked", title, product.fsync, kib, "KiB", f"{kib * 1024:.0f} bytes")


async def _resting_bytes(redis: aioredis.Redis) -> int:
    """used_memory without the buffers of clients and AOF, once no job of RQ is left to be filed away."""

    async def nothing_queued() -> bool:
        return not [key async for key in redis.scan_iter("rq:job:*", count=1000)]

    await eventually_async(nothing_queued)
    info = await redis.info("memory")
    return int(info["used_memory"]) - int(info["mem_clients_normal"]) - int(info["mem_aof_buffer"])


async def killed(product: Product, *, supervised: bool) -> Figure:
    """From kill -9 of the process that runs a turn, in the middle of its second model call, to the turn's answer."""
    http = await HttpClient.open(product.base_url)
    folder = product.agents / "bench-held"
    took = []
    for _ in range(DEATHS if supervised else 1):
        eventually(lambda: product.beating() >= 2)  # somebody is there to take over
        (folder / "hold").touch()
        turn = asyncio.create_task(run_one(http, "bench-held"))

        async def held() -> int:
            return int((folder / "held").read_text()) if (folder / "held").exists() else 0

        pid = await eventually_async(held)
        (folder / "hold").unlink()
        (folder / "held").unlink()
        began = time.perf_counter()
        os.kill(pid, signal.SIGKILL)
        await turn
        took.append(time.perf_counter() - began)
    await http.aclose()
    worst = max(took)
    under = "under its supervisor" if supervised else "its machine gone"
    row = "killed-supervised" if supervised else "killed-unsupervised"
    title = f"kill -9 of a worker process ({under}) to finished turn"
    return Figure(row, title, product.fsync, worst, "s", f"worst of {len(took)}", raw={"seconds": took})
