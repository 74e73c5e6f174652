"""DUP-01: killed after the effect, before the record."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from tests.cases.client import types_of
from tests.cases.conversations import requests_about, results_in
from tests.cases.ledger import asks, says, use
from tests.cases.product import Product, case
from tests.fake_provider.script import Entry
from tests.processes import eventually, eventually_async

OUTCOMES = ["run again", "it happened", "it failed"]
LEASE = {"LOOPENGINE_LEASE_SECONDS": "3"}
KILLS, TURNS_PER_KILL = 3, 10
"""The case's 30 repetitions: each kill meets ten turns, each of them in another moment."""


def adding(key: str, tool: str = "ledger_add", **args: Any) -> list[Entry]:
    return [asks(use(f"toolu_{key}", tool, key=key, **args)), says(f"{key} is settled.")]


async def approved(product: Product, key: str) -> str:
    """The id of a turn whose call of ``key`` was allowed by a person, and now may run."""
    parked = (await product.client.say(f"s-{key}", f"add {key}", wait_s=60)).json()
    assert parked["type"] == "approval", parked
    assert (await product.client.decide(parked["id"], "allow", by="kim")).status_code in (200, 202)
    return str(parked["turnId"])


async def call_status(product: Product, key: str) -> str:
    """What SHOW says about the one call of the session."""
    (status,) = [
        call["status"]
        for message in (await product.client.show(f"s-{key}"))["messages"]
        for call in message.get("calls", [])
    ]
    return str(status)


def told(product: Product, key: str) -> str:
    """What the model was told about the call."""
    # More than two requests: the worker was killed while the model was asked what follows the call.
    _, *after = requests_about(product.fake.requests, f"add {key}")
    ((id_, text, _),) = {result for request in after for result in results_in(request)}
    assert id_ == f"toolu_{key}"
    return text


async def test_a_call_whose_worker_was_killed_inside_it_is_never_run_again_silently(
    redis_url: str, tmp_path: Path
) -> None:
    scripts = {
        "^add d1$": adding("d1", secs=20),
        "^add f1$": adding("f1", tool="failing_add", secs=20),
        "^add d3$": adding("d3", before=5),
        "^add d4$": adding("d4", tool="idempotent_add", secs=5),
    }
    async with case(redis_url, tmp_path, scripts, env=LEASE) as product:
        # 1. "`ledger_add {"key":"d1","secs":20}` (ask, approved). When the ledger shows `begin d1`, ..." The same with
        # a tool that lets the model be told (f1). 3. "killed after the tool-started event but before `begin`" (d3).
        # 4. "Repeat 1 with the tool declared safe to repeat" (d4). One kill meets them all.
        d1, f1 = await asyncio.gather(approved(product, "d1"), approved(product, "f1"))
        eventually(lambda: {"d1", "f1"} <= set(product.ledger.begun()))
        d4, d3 = await asyncio.gather(approved(product, "d4"), approved(product, "d3"))
        eventually(lambda: product.ledger.count("begin d4"))
        await eventually_async(lambda: has_started(product, d3))
        assert product.ledger.count("end d4") == 0

        # "`kill -9` the RQ worker, its work-horse and the tool process." (They are one process here.)
        product.kill(*product.workers)

        # "The write-ahead record ("about to run call X") is there before the effect: in 1 SHOW after the crash says
        # running or unknown for that call, not "not started"."
        assert await call_status(product, "d1") in ("running", "unknown")

        # "Start a worker, wait LEASE."
        product.start(apis=0, workers=1)
        question = await product.client.opened("s-d1")
        assert await call_status(product, "d1") == "unknown"

        # 1: "`begin d1` once. The turn goes on by itself; the model is told the outcome is unknown (or the product asks
        # a person whether to run it again, as a new approval). Never a silent second run."
        assert (question["type"], question["options"]) == ("question", OUTCOMES)
        assert (await product.client.answer(question["id"], "it happened")).status_code in (200, 202)
        await product.client.settled(d1, "done")
        assert "it happened" in told(product, "d1")
        turn = await product.client.settled(f1, "done")
        assert "Its outcome is unknown" in told(product, "f1")
        assert [e["statusText"] for e in turn["events"] if e["type"] == "tool:result"] == ["Unknown."]
        assert (product.ledger.count("begin d1"), product.ledger.count("begin f1")) == (1, 1)

        # 3: "at most once." Nobody but the person who is asked can know, and only this person has it run.
        question = await product.client.opened("s-d3")
        assert (question["options"], product.ledger.count("begin d3")) == (OUTCOMES, 0)
        await product.client.answer(question["id"], "run again")
        await product.client.settled(d3, "done")
        assert (product.ledger.count("begin d3"), told(product, "d3")) == (1, "added d3")

        # 4: "may run again, with the same idempotency key handed to the tool both times."
        turn = await product.client.settled(d4, "done")
        assert product.ledger.count("begin d4") == 2
        keys = [line for line in product.ledger.lines if line.startswith("key ")]
        assert (len(keys), len(set(keys))) == (2, 1)
        assert types_of(turn["events"]).count("tool:started") == 1


async def test_the_moment_between_the_effect_and_its_record_loses_and_doubles_nothing(
    redis_url: str, tmp_path: Path
) -> None:
    keys = {kill: [f"d2-{kill}-{n}" for n in range(TURNS_PER_KILL)] for kill in range(KILLS)}
    scripts = {f"^add {key}$": adding(key, secs=0.03 * n) for mine in keys.values() for n, key in enumerate(mine)}
    async with case(redis_url, tmp_path, scripts, env=LEASE) as product:
        asked: list[str] = []
        for mine in keys.values():
            parked = await asyncio.gather(*(product.client.say(f"s-{key}", f"add {key}", wait_s=60) for key in mine))
            deciding = [
                asyncio.create_task(product.client.decide(answer.json()["id"], "allow", by="kim")) for answer in parked
            ]
            # 2. "Same, killed just after `end d1` appears (a loop that watches the file and kills)."
            (worker,) = product.workers
            await asyncio.to_thread(kill_at_the_end_of_one_of, product, mine, worker.pid)
            product.kill(worker)
            await asyncio.gather(*deciding)
            product.start(apis=0, workers=1)
            asked += await finished(product, mine)

        everything = [key for mine in keys.values() for key in mine]
        # 2: "`begin d1` once. (...) Never a silent second run." (Not even once, if the kill met it before its effect.)
        begun = product.ledger.begun()
        assert len(begun) == len(set(begun))
        assert set(everything) - set(begun) <= set(asked)
        for key in everything:
            # The call is answered as it ended if that was recorded, else a person was asked.
            assert ("a person found" if key in asked else f"added {key}") in told(product, key)
        print(f"{len(asked)} turns were killed inside the call,", end=" ")
        print(f"{sum(product.ledger.count(f'end {key}') for key in asked)} of them behind the effect")


async def has_started(product: Product, turn_id: str) -> bool:
    return "tool:started" in types_of((await product.client.turn(turn_id))["events"])


def kill_at_the_end_of_one_of(product: Product, keys: list[str], pid: int) -> None:
    ends = {f"end {key}" for key in keys}
    eventually(lambda: product.ledger.file.exists())
    while not ends & set(product.ledger.lines):
        pass  # the gap is a millisecond or two: no pause
    os.kill(pid, signal.SIGKILL)


async def finished(product: Product, keys: list[str]) -> list[str]:
    """Bring all turns of these keys to their end; answers those in which a person had to be asked."""

    async def finish(key: str) -> bool:
        turn_id = (await product.client.show(f"s-{key}"))["turnId"]
        # The approval itself was decided: what parks the turn now is a question about its outcome.
        turn = await product.client.settled(turn_id)
        if turn["state"] == "done":
            return False
        assert (turn["item"]["type"], turn["item"]["options"]) == ("question", OUTCOMES)
        happened = product.ledger.count(f"end {key}") > 0
        await product.client.answer(turn["item"]["id"], "it happened" if happened else "it failed")
        await product.client.settled(turn_id, "done")
        return True

    was_asked = await asyncio.gather(*(finish(key) for key in keys))
    return [key for key, asked in zip(keys, was_asked, strict=True) if asked]
