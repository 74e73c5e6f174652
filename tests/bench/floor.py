"""The floor: what the raw store does on this machine in this minute. Frozen: every figure is a ratio to it.

One floor turn is five XADD of 180 bytes, awaited one by one, by redis-py's asyncio client with its default pool: the
least that an engine must write for a turn of 3 model calls and 2 tool calls when every step is durable before the
next. A turn writes to a stream of its own, as turns do. Change nothing here, or no figure compares with an older one.
"""

from __future__ import annotations

import asyncio
import time
from statistics import median

from redis import asyncio as aioredis

APPENDS = 5
PAYLOAD = b"x" * 180
WIDTH = 32

_PREFIX = "bench-floor:"


async def alone_s(url: str, turns: int) -> list[float]:
    """Seconds that each of ``turns`` floor turns takes, one after the other."""
    async with aioredis.Redis.from_url(url) as redis:
        await _turn(redis, "warm-up")
        took = []
        for n in range(turns):
            began = time.perf_counter()
            await _turn(redis, str(n))
            took.append(time.perf_counter() - began)
        await _clear(redis)
    return took


async def at_once_per_s(url: str, seconds: float) -> float:
    """Floor turns per second with WIDTH of them under way all the time."""
    async with aioredis.Redis.from_url(url) as redis:
        await asyncio.gather(*(_turn(redis, f"warm-up-{n}") for n in range(WIDTH)))
        began = time.perf_counter()
        counts = await asyncio.gather(*(_turns_until(redis, str(n), began + seconds) for n in range(WIDTH)))
        took = time.perf_counter() - began
        await _clear(redis)
    return sum(counts) / took


def p50(samples: list[float]) -> float:
    return median(samples)


async def _turn(redis: aioredis.Redis, name: str) -> None:
    for _ in range(APPENDS):
        await redis.xadd(_PREFIX + name, {"e": PAYLOAD})


async def _turns_until(redis: aioredis.Redis, name: str, end: float) -> int:
    done = 0
    while time.perf_counter() < end:
        await _turn(redis, f"{name}-{done}")
        done += 1
    return done


async def _clear(redis: aioredis.Redis) -> None:
    keys = [key async for key in redis.scan_iter(f"{_PREFIX}*", count=1000)]
    for start in range(0, len(keys), 1000):
        await redis.unlink(*keys[start : start + 1000])
