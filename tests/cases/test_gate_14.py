"""GATE-14: a parked turn costs no worker, and a waiting caller gets an answer."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import redis
from rq import Queue
from rq.registry import StartedJobRegistry
from rq.serializers import JSONSerializer

from tests.cases.client import Client
from tests.cases.ledger import asks, says, use
from tests.cases.product import Product, case
from tests.fake_provider.script import latest_text
from tests.processes import REPOSITORY, Process, eventually

PARKED = 25
MODEL_S = 0.2
SOON_S = 5.0
FLAT_BYTES = 8 * 1024 * 1024
FAIR = 3
"""Turns of acme that may come before bolt's: the one that runs, and those taken while bolt's message is on its way."""

SCRIPTS = {
    "^add": [asks(use("toolu_a", "ledger_add", key="k")), says("Added.", sleep=MODEL_S)],
    "^colour": [asks(use("toolu_q", "ask_user", question="Which colour?")), says("Thanks.", sleep=MODEL_S)],
}


async def test_parked_turns_hold_no_worker_and_everybody_gets_an_answer(redis_url: str, tmp_path: Path) -> None:
    # 1. One worker - which can run one turn at a time.
    async with case(redis_url, tmp_path, SCRIPTS, env={"LOOPENGINE_CONCURRENCY": "1"}) as product:
        bolt = product.start_api(tenant="bolt").client
        (worker,) = product.workers
        usual_s = await hello(bolt, "before")

        # Park 25 sessions of tenant acme (approvals and questions).
        first = await asyncio.gather(*(park(product.client, number) for number in range(5)))
        memory = resident_bytes(worker)
        parked = first + await asyncio.gather(*(park(product.client, number) for number in range(5, PARKED - 1)))

        # 2. SAY in a new session of tenant bolt.
        # 2: "finishes in its usual time."
        assert await hello(bolt, "while") < 3 * usual_s + 1

        parked.append(await blocking_say_that_parks(product.client))
        while_all_are_parked(product, worker, memory)

        # 5. Decide all 25 at once.
        await asyncio.gather(*(settle(product.client, item) for item in parked))
        before = len(product.fake.requests)
        await hello(bolt, "after")
        left = [item for item in parked if (await product.client.turn(item["turnId"]))["state"] != "done"]
        turns = await asyncio.gather(*(product.client.settled(item["turnId"], "done") for item in parked))

        # 5: "all finish;"
        assert {turn["text"] for turn in turns} == {"Added.", "Thanks."}
        assert product.ledger.count("begin k") == sum(1 for item in parked if item["type"] == "approval")
        # "no tenant waits behind more than its fair share."
        behind = [latest_text(body) for body in product.fake.requests[before:]].index("hello")
        assert behind <= FAIR
        assert left  # else there was nothing to wait behind
        await bolt.aclose()


async def park(client: Client, number: int) -> dict[str, Any]:
    answer = await client.say(f"s{number}", f"{'add' if number % 2 else 'colour'} {number}", wait_s=60)
    assert answer.status_code == 202, answer.text
    return dict(answer.json())


async def settle(client: Client, item: dict[str, Any]) -> None:
    decide = client.decide(item["id"], "allow") if item["type"] == "approval" else client.answer(item["id"], "red")
    assert (await decide).status_code == 202


async def hello(client: Client, session: str) -> float:
    """Seconds that a plain turn takes."""
    began = time.monotonic()
    answer = await client.say(session, "hello", wait_s=60)
    assert (answer.status_code, answer.json()["text"]) == (200, "Hello to you."), answer.text
    return time.monotonic() - began


async def blocking_say_that_parks(client: Client) -> dict[str, Any]:
    # 3. Blocking SAY (wait for the result) that parks.
    began = time.monotonic()
    answer = await client.say("waiting", "add at once", wait_s=None)
    # 3: "returns 202 with the turn id and the open ids within a few seconds of parking, not at a proxy time-out."
    assert time.monotonic() - began < SOON_S
    (item,) = await client.pending("waiting")
    assert answer.status_code == 202
    assert (answer.json()["turnId"], answer.json()["id"]) == (item["turnId"], item["id"])
    return dict(answer.json())


def while_all_are_parked(product: Product, worker: Process, memory: int) -> None:
    # 4. rq info.
    with redis.Redis.from_url(product.redis_url) as client:
        queue = Queue("loopengine", connection=client, serializer=JSONSerializer)
        registry = StartedJobRegistry(queue=queue)
        # 4: "no started jobs while all are parked;"
        eventually(lambda: registry.count == 0 and queue.count == 0)
    # The worker tells RQ that it is idle a moment after its last turn has parked.
    eventually(lambda: rq_info(product.redis_url)[1].split(") ")[1].startswith("idle loopengine"))
    assert rq_info(product.redis_url)[0].startswith("queue loopengine 0, 0 executing")
    # "memory of the worker is flat."
    assert resident_bytes(worker) - memory < FLAT_BYTES
    assert product.due() == 0


def rq_info(redis_url: str) -> list[str]:
    """What RQ's own tool shows: the line of the queue, then that of the worker."""
    command = [str(Path(sys.executable).parent / "rq"), "info", "--raw", "--serializer", "json", "--url", redis_url]
    shown = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=True)
    queue, worker = (line for line in shown.stdout.splitlines() if line)
    return [queue, worker]


def resident_bytes(process: Process) -> int:
    return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * 4096
