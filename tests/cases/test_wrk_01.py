"""WRK-01: stop signals during a turn.

The documented grace (docs/operations.md): a worker that is told to stop hands each turn back at its next commit and is
gone after LOOPENGINE_DRAIN_SECONDS at most, plus a few seconds for a store that does not answer.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from functools import partial
from pathlib import Path
from typing import Any

import redis

from tests.cases.client import Client, frames_of
from tests.cases.ledger import AGENT, asks, says, use
from tests.cases.product import Product, case
from tests.processes import Process, eventually

DRAIN_S = 3.0
LAST_WORDS_S = 12.0  # 3 s for the store, the rest for a busy machine
LONG_S = 30.0
SIGNALS = 10
"""The case's 100 random moments: fewer stops, each in the middle of several turns."""
TURNS_A_SIGNAL = 4
ENV = {"LOOPENGINE_DRAIN_SECONDS": f"{DRAIN_S:g}", "LOOPENGINE_LEASE_SECONDS": "3"}
RULES = ["{tool: failing_add, decision: ask}", '{tool: "*", decision: allow}']
SCRIPTS: dict[str, Any] = {
    "^model": [[says("Too late.", sleep=LONG_S), says("The model answered.")]],
    "^effect": [asks(use("toolu_e", "ledger_add", key="effect", secs=LONG_S)), says("The effect is settled.")],
    "^park$": [asks(use("toolu_p", "failing_add", key="parked")), says("Decided.")],
    "^moment": [asks(use("toolu_m", "idempotent_add", key="moment")), says("In time.")],
}


def stopped(product: Product, worker: Process, *signals: signal.Signals) -> int:
    """The exit code of a worker that was told to stop, each signal as soon as the one before was taken note of."""
    for number, one in enumerate(signals):
        if number:
            worker.wait_for_output("worker stops")
        worker.signal(one)
    # "The worker exits within its documented grace time even if the model never answers."
    code = worker.wait(DRAIN_S + LAST_WORDS_S)
    product.workers = [other for other in product.workers if other is not worker]
    return code


def nothing_runs_without_a_process(product: Product) -> None:
    """ "None is "running" without a process after LEASE." """

    def all_owned() -> bool:
        with redis.Redis.from_url(product.redis_url) as raw:
            owners = {m.split(b"|")[0] for key in raw.keys("loop:*:run") for m in raw.zrange(key, 0, -1)}
        return owners <= product.beats().keys()

    eventually(all_owned)


async def followed(client: Client, session: str, opened: asyncio.Event) -> list[str]:
    types: list[str] = []
    async with client.http.stream("GET", f"/agents/{AGENT}/sessions/{session}/stream") as answer:
        async for frame in frames_of(answer):
            types.append(str(frame.event))
            opened.set()
    return types


async def test_a_stop_during_a_model_call_leaves_the_turn_to_the_next_worker(redis_url: str, tmp_path: Path) -> None:
    for n, signals in enumerate(((signal.SIGTERM,), (signal.SIGTERM, signal.SIGTERM))):
        folder = tmp_path / str(n)
        folder.mkdir()
        # 1. "SIGTERM once: (a) during a 30 s model call"; 2. "SIGTERM twice".
        async with case(redis_url, folder, SCRIPTS, workers=1, rules=RULES, env=ENV) as product:
            session = f"model {n}"
            turn_id = (await product.client.say(session, session, wait_s=0)).json()["turnId"]
            opened = asyncio.Event()
            reading = asyncio.create_task(followed(product.client, session, opened))
            await opened.wait()
            eventually(lambda: len(product.fake.requests) == 1)
            code = stopped(product, product.workers[0], *signals)
            assert code == (0 if len(signals) == 1 else 1)
            # "Clients on the stream see no false terminal event."
            assert not reading.done()
            # "Start a new worker each time." "Every turn finishes, or is taken up by the new worker within LEASE".
            product.start_worker()
            done = await product.client.settled(turn_id, "done")
            assert (done["text"], done.get("stopReason")) == ("The model answered.", None)
            assert (await reading).count("done") == 1
            nothing_runs_without_a_process(product)


async def test_a_stop_during_a_tool_never_begins_it_twice(redis_url: str, tmp_path: Path) -> None:
    async with case(redis_url, tmp_path, SCRIPTS, workers=1, rules=RULES, env=ENV) as product:
        # 1. and 2. "(b) during a 30 s tool"; 4. "SIGINT to the whole process group (Ctrl-C in a terminal)."
        for n, signals in enumerate(((signal.SIGTERM,), (signal.SIGTERM, signal.SIGTERM), (signal.SIGINT,))):
            session = f"effect {n}"
            turn_id = (await product.client.say(session, session, wait_s=0)).json()["turnId"]
            eventually(partial(_begun, product, n + 1))
            [worker] = product.workers
            if signals == (signal.SIGINT,):
                os.killpg(worker.pid, signal.SIGINT)
                assert stopped(product, worker) == 0
            else:
                assert stopped(product, worker, *signals) == (0 if len(signals) == 1 else 1)
            product.start_worker()
            # "or is marked interrupted and resumable": what came of the effect is a person's to say.
            parked = await product.client.settled(turn_id, "parked")
            assert "interrupted" in parked["item"]["question"]
            assert (await product.client.answer(parked["item"]["id"], "it happened")).status_code in (200, 202)
            done = await product.client.settled(turn_id, "done")
            assert (done["text"], done.get("stopReason")) == ("The effect is settled.", None)
            nothing_runs_without_a_process(product)
            # "Ledger: never two `begin`."
            assert product.ledger.count("begin effect") == n + 1


def _begun(product: Product, times: int) -> bool:
    return product.ledger.count("begin effect") == times


async def test_a_stop_while_parked_changes_nothing(redis_url: str, tmp_path: Path) -> None:
    async with case(redis_url, tmp_path, SCRIPTS, workers=1, rules=RULES, env=ENV) as product:
        # 1. "(c) while parked."
        parked = (await product.client.say("park", "park")).json()
        before = await product.client.turn(parked["turnId"])
        assert stopped(product, product.workers[0], signal.SIGTERM) == 0
        assert await product.client.turn(parked["turnId"]) == before
        product.start_worker()
        assert (await product.client.decide(parked["id"], "allow", by="kim", wait_s=30)).json()["text"] == "Decided."
        assert product.ledger.count("begin parked") == 1


async def test_a_stop_at_any_moment_loses_no_turn(redis_url: str, tmp_path: Path) -> None:
    async with case(redis_url, tmp_path, SCRIPTS, workers=1, rules=RULES, env=ENV) as product:
        turns: list[str] = []
        for n in range(SIGNALS):
            sent = [product.client.say(f"moment {n} {k}", f"moment {n} {k}", wait_s=0) for k in range(TURNS_A_SIGNAL)]
            turns += [answer.json()["turnId"] for answer in await asyncio.gather(*sent)]
            # 3. "SIGTERM at a random moment in the first 300 ms after `SAY`": the moment is the case's, not a wait.
            await asyncio.sleep(random.uniform(0, 0.3))
            assert stopped(product, product.workers[0], signal.SIGTERM) == 0
            product.start_worker()
        for turn_id in turns:
            done = await product.client.settled(turn_id, "done")
            assert (done["text"], done.get("stopReason")) == ("In time.", None)
        nothing_runs_without_a_process(product)
        # A hand-back comes before an intent: not even what may be repeated was begun twice.
        assert product.ledger.count("begin moment") == len(turns)
