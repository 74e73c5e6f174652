"""GATE-05: decided while nothing is listening."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis

from tests.cases.conversations import requests_about
from tests.cases.ledger import asks, says, use
from tests.cases.product import Product, case

AT_ONCE_S = 5.0
"""A request that waits looks every two seconds whether there is still a worker to wait for."""
FOUND_S = 10.0
"""Documented: a sweep looks once a second; the rest is for a slow machine."""
NEVER_S = "3600"


def script(key: str) -> list[dict[str, Any]]:
    return [asks(use(f"toolu_{key}", "ledger_add", key=key)), says("Added.")]


async def park(product: Product, key: str) -> dict[str, Any]:
    answer = await product.client.say(f"s-{key}", f"add {key}", wait_s=60)
    assert answer.status_code == 202, answer.text
    return dict(answer.json())


async def decided_once(product: Product, parked: dict[str, Any]) -> None:
    key = parked["args"]["key"]
    # 4. After each, send the same decision again: it is accepted, and nothing happens twice.
    again = await product.client.decide(parked["id"], "allow", wait_s=60)
    assert (again.status_code, again.json()["decision"]["what"]) == (200, "approve"), again.text
    # "Ledger: one line per turn."
    assert product.ledger.count(f"begin {key}") == 1
    assert len(requests_about(product.fake.requests, f"add {key}")) == 2


async def test_a_decision_without_any_worker_is_answered_at_once_and_carried_out_by_the_next_one(
    redis_url: str, tmp_path: Path
) -> None:
    async with case(redis_url, tmp_path, {"^add one$": script("one")}, workers=2) as product:
        # 1. Park a turn. Stop all workers. DECIDE allow. Read status. Start a worker.
        parked = await park(product, "one")
        product.stop(*product.workers)
        began = time.monotonic()
        decided = await product.client.decide(parked["id"], "allow", wait_s=None)

        # 1: "the answer is 200 or 202 at once, ..."
        assert time.monotonic() - began < AT_ONCE_S
        assert (decided.status_code, decided.json()["type"]) == (202, "running"), decided.text
        assert decided.json()["decision"]["what"] == "approve"
        # "... and the status says decided and waiting for a worker, not running."
        status = await product.client.turn(parked["turnId"])
        assert (status["state"], status["note"]) == ("queued", "waiting for a worker")
        assert "item" not in status
        assert await product.client.pending() == []
        assert (await product.client.show("s-one"))["state"] == "queued"
        # "It resumes as soon as a worker starts."
        product.start_worker()
        turn = await product.client.settled(parked["turnId"], "done", within_s=FOUND_S)
        assert turn["text"] == "Added."
        await decided_once(product, parked)


async def test_a_decision_whose_api_process_dies_before_it_could_wake_anybody_is_found(
    redis_url: str, tmp_path: Path
) -> None:
    scripts = {"^add two$": script("two")}
    async with case(redis_url, tmp_path, scripts, workers=1) as product:
        # 2. Park another. Kill the API process right after it stored the decision. Start the API.
        parked = await park(product, "two")
        await decide_and_kill_the_api(product, parked)

        # 2: "a sweep finds "decided but not resumed" within a documented time without any client action;"
        turn = await product.client.settled(parked["turnId"], "done", within_s=FOUND_S)
        assert (turn["text"], turn.get("stopReason")) == ("Added.", None)
        await decided_once(product, parked)


async def test_the_same_decision_sent_again_sets_the_turn_going_where_no_sweep_does(
    redis_url: str, tmp_path: Path
) -> None:
    scripts = {"^add again$": script("again")}
    # The worker never sweeps: whatever moves the turn is the repeated request.
    async with case(redis_url, tmp_path, scripts, env={"LOOPENGINE_SWEEP_SECONDS": NEVER_S}) as product:
        parked = await park(product, "again")
        await decide_and_kill_the_api(product, parked)
        await asyncio.to_thread(product.wait_for_beats)
        assert (await product.client.turn(parked["turnId"]))["state"] == "queued"

        # 2: "the repeat in step 4 is accepted and also sets it going."
        await decided_once(product, parked)
        assert (await product.client.turn(parked["turnId"]))["text"] == "Added."


async def test_a_decision_is_carried_out_when_the_connections_for_news_were_just_killed(
    redis_url: str, tmp_path: Path
) -> None:
    async with case(redis_url, tmp_path, {"^add three$": script("three")}, workers=1) as product:
        # 3. Park another. On Redis run CLIENT KILL TYPE pubsub. Decide.
        parked = await park(product, "three")
        with redis.Redis.from_url(redis_url) as client:
            assert int(client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")) > 0
        began = time.monotonic()
        decided = await product.client.decide(parked["id"], "allow", wait_s=60)

        # 3: "the turn resumes within a second or two; correctness does not hang on pub/sub."
        assert time.monotonic() - began < AT_ONCE_S
        assert (decided.status_code, decided.json()["text"]) == (200, "Added.")
        await decided_once(product, parked)


async def decide_and_kill_the_api(product: Product, parked: dict[str, Any]) -> None:
    """The decision is stored, the wake-up behind it hangs, and kill -9 comes before it gets anywhere.

    The case pauses Redis between the two, which has to hit the moment between two commands. Here the API's Redis for
    wake-ups is one that takes connections and never answers: the same place, every time.
    """
    with unanswering_redis() as url:
        api = product.start_api(LOOPENGINE_RQ_URL=url)
        deciding = asyncio.create_task(api.client.decide(parked["id"], "allow", wait_s=60))
        await product.client.settled(parked["turnId"], "queued", "running", "done")
        assert not deciding.done()
        product.kill(api.process)
        with contextlib.suppress(Exception):
            await deciding
        await api.client.aclose()
    # "Start the API": the other process has never heard of the decision either.
    product.start_api()


@contextlib.contextmanager
def unanswering_redis() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"redis://127.0.0.1:{server.getsockname()[1]}/0"
