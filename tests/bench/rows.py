"""The rows that are measured against the floor: floor, product, floor, product, floor, so that a machine that drifts
drifts for both.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import chain
from statistics import median
from typing import Any

from tests.bench import cpu, floor
from tests.bench.figure import Figure
from tests.bench.http_client import HttpClient
from tests.bench.product import Product

ROUNDS = 7
ALONE_PER_ROUND = 40
SECONDS_PER_ROUND = 2.0
WARM_UP_S = 1.5

MESSAGE = {"message": "order A-1001 arrived broken, please take a note"}


async def run_one(http: HttpClient, agent: str = "bench") -> None:
    """One turn from message to answer."""
    answer = await http.post(f"/agents/{agent}/messages", MESSAGE, expect=200)
    if answer["text"] != "Noted and filed.":
        raise AssertionError(f"the turn did not end as it should: {answer}")


async def park_one(http: HttpClient) -> str:
    """One turn up to its approval; the path that approves it."""
    answer = await http.post("/agents/bench-gate/messages", MESSAGE, expect=202)
    return str(answer["approveUrl"])


async def alone(product: Product) -> Figure:
    async def sample(http: HttpClient) -> float:
        began = time.perf_counter()
        await run_one(http)
        return time.perf_counter() - began

    return await _against_floor(product, "alone", "one turn alone, p50", sample)


async def decision(product: Product) -> Figure:
    async def sample(http: HttpClient) -> float:
        approve = await park_one(http)
        began = time.perf_counter()
        await http.post(approve, {}, expect=200)
        return time.perf_counter() - began

    return await _against_floor(product, "decision", "decision to finished turn, p50", sample)


async def _against_floor(
    product: Product, row: str, title: str, sample: Callable[[HttpClient], Awaitable[float]]
) -> Figure:
    http = await HttpClient.open(product.base_url)
    for _ in range(20):
        await sample(http)
    floors, ours = [await floor.alone_s(product.redis_url, ALONE_PER_ROUND)], []
    for _ in range(ROUNDS):
        ours.append([await sample(http) for _ in range(ALONE_PER_ROUND)])
        floors.append(await floor.alone_s(product.redis_url, ALONE_PER_ROUND))
    await http.aclose()
    # Each round against the floor before and after it: what else the machine does weighs on both.
    ratios = [
        floor.p50(round_) / floor.p50(before + after)
        for round_, before, after in zip(ours, floors[:-1], floors[1:], strict=True)
    ]
    ours_ms, floor_ms = floor.p50(list(chain(*ours))) * 1000, floor.p50(list(chain(*floors))) * 1000
    raw = {"ours_p50_ms": ours_ms, "floor_p50_ms": floor_ms, "ratios": ratios}
    return _figure(product, row, title, median(ratios), "x floor", f"{ours_ms:.1f} ms", f"{floor_ms:.2f} ms", raw)


async def at_once(product: Product, workers: int) -> Figure:
    """Turns per second with 32 under way all the time."""
    clients = [await HttpClient.open(product.base_url) for _ in range(floor.WIDTH)]
    await _rate(clients, WARM_UP_S)
    floors, ours = [await floor.at_once_per_s(product.redis_url, SECONDS_PER_ROUND / 2)], []
    spent: dict[str, float] = {}
    turns = 0.0
    for _ in range(ROUNDS):
        before = cpu.spent_s(product.pids)
        ours.append(await _rate(clients, SECONDS_PER_ROUND))
        for name, seconds in cpu.between(before, cpu.spent_s(product.pids)).items():
            spent[name] = spent.get(name, 0.0) + seconds
        turns += ours[-1] * SECONDS_PER_ROUND
        floors.append(await floor.at_once_per_s(product.redis_url, SECONDS_PER_ROUND / 2))
    for http in clients:
        await http.aclose()
    rate, floor_rate = median(ours), median(floors)
    pairs = zip(ours, floors[:-1], floors[1:], strict=True)
    percent = median(100 * rate_ / ((before_ + after_) / 2) for rate_, before_, after_ in pairs)
    cpu_ms = {name: round(1000 * seconds / turns, 2) for name, seconds in spent.items()}
    raw = {"ours_per_s": ours, "floor_per_s": floors, "cpu_ms_per_turn": cpu_ms}
    title = f"turns/s, {floor.WIDTH} in flight, {workers} worker process{'es' if workers > 1 else ''}"
    return _figure(
        product, f"at-once-{workers}", title, percent, "% of floor", f"{rate:.0f} /s", f"{floor_rate:.0f} /s", raw
    )


async def _rate(clients: list[HttpClient], seconds: float) -> float:
    began = time.perf_counter()
    end = began + seconds

    async def client(http: HttpClient) -> int:
        done = 0
        while time.perf_counter() < end:
            await run_one(http)
            done += 1
        return done

    counts = await asyncio.gather(*(client(http) for http in clients))
    return sum(counts) / (time.perf_counter() - began)


def _figure(
    product: Product, row: str, title: str, value: float, unit: str, ours: str, floor_: str, raw: dict[str, Any]
) -> Figure:
    return Figure(row, title, product.fsync, value, unit, ours, floor_, raw)
