"""LOCK-03: the owner is gone and the lock stays.

The lock of a turn is its claim: a running entry under the name of a worker that beats, and the token in the turn. The
count of a tenant's running turns is the size of the set of these turns; nothing is counted up and down.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.cases.ledger import asks, says, use
from tests.cases.product import Product, case
from tests.processes import eventually

LEASE = {"LOOPENGINE_LEASE_SECONDS": "3"}
LONG_S = 30.0
RULES = ["{tool: failing_add, decision: ask}", '{tool: "*", decision: allow}']
SCRIPTS: dict[str, Any] = {
    "^accept$": [says("Accepted and answered.")],
    "^model$": [[says("Too late.", sleep=LONG_S), says("The model answered.")]],
    "^tool$": [asks(use("toolu_t", "ledger_add", key="tool", secs=LONG_S)), says("The tool is settled.")],
    "^park$": [asks(use("toolu_p", "failing_add", key="park")), says("Decided.")],
    "^final$": [
        asks(use("toolu_f", "ledger_add", key="final")),
        [says("Too late.", sleep=LONG_S), says("The final answer.")],
    ],
    "^long 0$": [[says("Too late.", sleep=LONG_S), says("The long one.")]],
    "^long 1$": [[says("Too late.", sleep=LONG_S), says("The long one.")]],
    "^short$": [says("Short.")],
    "^lock$": [asks(use("toolu_l", "ledger_add", key="lock", secs=4)), says("Locked.")],
}
ENDS = {
    "accept": "Accepted and answered.",
    "model": "The model answered.",
    "tool": "The tool is settled.",
    "park": "Decided.",
    "final": "The final answer.",
}


def requests(product: Product, count: int) -> bool:
    return len(product.fake.requests) == count


def has_begun(product: Product, key: str) -> bool:
    return product.ledger.count(f"begin {key}") == 1


def running(product: Product) -> tuple[set[bytes], set[bytes]]:
    """The turns that are locked: by their workers' entries, and by their tenants' sets."""
    with redis.Redis.from_url(product.redis_url) as raw:
        entries = {m.split(b"|")[1] for key in raw.keys("loop:*:run") for m in raw.zrange(key, 0, -1)}
        counted = {m for key in raw.keys("loop:*:busy:*") for m in raw.smembers(key)}
    return entries, counted


def none_runs(product: Product) -> bool:
    return running(product) == (set(), set())


@pytest.mark.parametrize("point", list(ENDS))
async def test_a_session_goes_on_after_every_process_was_killed(redis_url: str, tmp_path: Path, point: str) -> None:
    async with case(
        redis_url, tmp_path, SCRIPTS, workers=0 if point == "accept" else 1, rules=RULES, env=LEASE
    ) as product:
        # 1. "`kill -9` every process of the product at five points: after accept, at model call, at tool, at park,
        # while writing the final answer."
        turn_id = (await product.client.say(point, point, wait_s=0)).json()["turnId"]
        match point:
            case "model":
                eventually(partial(requests, product, 1))
            case "tool":
                eventually(partial(has_begun, product, "tool"))
            case "park":
                await product.client.settled(turn_id, "parked")
            case "final":
                eventually(partial(requests, product, 2))
        await product.client.aclose()
        product.kill(*(api.process for api in product.apis), *product.workers)

        # "Start again." "Within LEASE the session takes a new message with no manual step":
        product.start(apis=1, workers=1)
        said = await product.client.say(point, "short", wait_s=0)
        assert said.status_code == 202
        if point in ("tool", "park"):
            item = await product.client.opened(point)
            decided = (
                await product.client.answer(item["id"], "it happened")
                if point == "tool"
                else await product.client.decide(item["id"], "allow", by="kim")
            )
            assert decided.status_code in (200, 202)
        first = await product.client.settled(turn_id, "done")
        assert (first["text"], first.get("stopReason")) == (ENDS[point], None)
        second = await product.client.settled(said.json()["turnId"], "done")
        assert second["text"] == "Short."
        assert product.ledger.begun() == ([point] if point in ("tool", "park", "final") else [])
        eventually(partial(none_runs, product))


async def test_killed_turns_leave_their_tenants_places(redis_url: str, tmp_path: Path) -> None:
    env = {**LEASE, "LOOPENGINE_MAX_RUNNING_PER_TENANT": "2"}
    async with case(redis_url, tmp_path, SCRIPTS, rules=RULES, env=env) as product:
        # 2. "Per-tenant limit of 2 running turns: kill two running ones."
        turns = [(await product.client.say(f"long {n}", f"long {n}", wait_s=0)).json()["turnId"] for n in range(2)]
        eventually(partial(requests, product, 2))
        waiting = (await product.client.say("third", "short", wait_s=0)).json()["turnId"]
        entries, counted = running(product)
        assert (len(entries), entries) == (2, counted)
        product.wait_for_beats()
        assert (await product.client.turn(waiting))["state"] == "queued"
        product.kill(*product.workers)
        # "tenant counters are back to the true number (derive them from live leases, do not count up and down)."
        product.start_worker()
        for turn_id in (*turns, waiting):
            assert (await product.client.settled(turn_id, "done"))["text"] in ("The long one.", "Short.")
        eventually(partial(none_runs, product))


async def test_a_turn_whose_lock_is_deleted_has_no_second_copy(redis_url: str, tmp_path: Path) -> None:
    async with case(redis_url, tmp_path, SCRIPTS, workers=2, rules=RULES, env=LEASE) as product:
        # 3. "Delete the lock key by hand while a turn runs."
        turn_id = (await product.client.say("lock", "lock", wait_s=0)).json()["turnId"]
        eventually(partial(has_begun, product, "lock"))
        with redis.Redis.from_url(redis_url) as raw:
            assert raw.delete(*raw.keys("loop:*:run"), *raw.keys("loop:*:busy:*")) >= 2
        # "3: the running turn notices it lost its lock and stops or takes it again safely; no second copy."
        turn = await product.client.settled(turn_id, "done", "parked")
        if turn["state"] == "parked":  # it was stopped inside its effect: a person says what came of it
            assert (await product.client.answer(turn["item"]["id"], "it happened")).status_code in (200, 202)
            turn = await product.client.settled(turn_id, "done")
        assert turn["text"] == "Locked."
        assert product.ledger.begun() == ["lock"]
        eventually(partial(none_runs, product))
