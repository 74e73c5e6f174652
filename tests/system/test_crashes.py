"""kill -9 of a worker in the middle of a step: another one goes on, and what was finished stays finished.

Counted outside of Redis: by the fake model, which keeps every request, and by the ledgers that the tools write.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import redis

from engine.store.keys import Keys
from tests.cases.client import Client, types_of
from tests.cases.conversations import Scripts, requests_about, results_in
from tests.cases.ledger import Ledger, asks, says, use
from tests.cases.product import Product, case
from tests.processes import REPOSITORY, eventually

SHOP = "customer-service"
OUTCOMES = ["run again", "it happened", "it failed"]
GENEROUS_S = 20.0
"""Taking over takes a lease (5 s) and a sweep (1 s); how long it took is printed, not judged."""


class Shop:
    """The example agent in production, its ledger, and a fake model behind it."""

    def __init__(self, folder: Path) -> None:
        shutil.copytree(
            REPOSITORY / "agents" / SHOP, folder / "agents" / SHOP, ignore=shutil.ignore_patterns("__pycache__")
        )
        self.ledger = Ledger(folder / "shop.txt")
        self.env = {
            "CUSTOMER_SERVICE_LEDGER": str(self.ledger.file),
            "LOOPENGINE_PROVIDER": "openai",
            "LOOPENGINE_MODEL": "fake",
            "LOOPENGINE_ENV": "production",
        }


def kill_the_owner(product: Product) -> float:
    """kill -9 of the worker that runs the turns; another one lives on. The moment of the kill."""
    with redis.Redis.from_url(product.redis_url) as client:
        (name,) = {member.split(b"|")[0].decode() for member in client.zrange(Keys(0).running, 0, -1)}
    (owner,) = [worker for worker in product.workers if f".{worker.pid}." in name]
    product.kill(owner)
    assert product.workers
    return time.monotonic()


async def resumed(client: Client, turn_id: str, killed_at: float, *states: str) -> dict[str, Any]:
    turn = await client.settled(turn_id, *states, within_s=GENEROUS_S)
    print(f"{turn['state']} {time.monotonic() - killed_at:.1f} s after the kill")
    check_numbers(turn)
    return turn


def check_numbers(turn: dict[str, Any]) -> None:
    """Every call started and answered once. (That the events are numbered 1..n, `redis_url` asserts for all turns.)"""
    types = types_of(turn["events"])
    assert (types[0], types.count("session"), types.count("done")) == ("session", 1, int(turn["state"] == "done"))
    for kind in ("tool:started", "tool:result"):
        ids = [event["id"] for event in turn["events"] if event["type"] == kind]
        assert len(ids) == len(set(ids)), ids


async def test_a_model_call_in_flight_is_asked_again_by_another_worker(redis_url: str, tmp_path: Path) -> None:
    # The second model call never comes back to the first worker.
    scripts: Scripts = {"^x$": [asks(use("toolu_r", "read_note")), [says("Lost.", sleep=60), says("Found.")]]}
    async with case(redis_url, tmp_path, scripts, workers=2) as product:
        turn_id = (await product.client.say("s", "x", wait_s=0)).json()["turnId"]
        product.fake.wait_for_requests(2, within_s=GENEROUS_S)

        killed_at = kill_the_owner(product)
        turn = await resumed(product.client, turn_id, killed_at, "done")

        assert (turn["text"], turn.get("stopReason")) == ("Found.", None)
        assert types_of(turn["events"]).count("turn:resumed") == 1
        # The first call was finished and was not asked again; the second was not, and was.
        first, second, again = requests_about(product.fake.requests, "x")
        assert (len(first["messages"]) < len(second["messages"]), second == again) == (True, True)
        assert product.ledger.lines == ["read"]


async def test_a_read_only_tool_in_flight_is_run_again_and_nothing_else_is(redis_url: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    scripts: Scripts = {
        "^where$": [
            asks(use("toolu_o", "lookup_order", orderId="A-1001")),
            asks(use("toolu_s", "get_shipment_details", orderId="A-1001")),
            says("At your door."),
        ]
    }
    env = {**shop.env, "CUSTOMER_SERVICE_DELAY_SECONDS": "1.5"}
    async with case(redis_url, tmp_path, scripts, workers=2, env=env) as product:
        turn_id = (await product.client.say("s", "where", wait_s=0, agent=SHOP)).json()["turnId"]
        eventually(lambda: shop.ledger.count("begin get_shipment_details"))

        killed_at = kill_the_owner(product)
        turn = await resumed(product.client, turn_id, killed_at, "done")

        assert (turn["text"], turn.get("stopReason")) == ("At your door.", None)
        # What had begun began again, unnoticed by those who watch; what was finished stayed so.
        assert shop.ledger.lines == [
            "begin lookup_order A-1001",
            "end lookup_order A-1001",
            "begin get_shipment_details A-1001",
            "begin get_shipment_details A-1001",
            "end get_shipment_details A-1001",
        ]
        assert len(requests_about(product.fake.requests, "where")) == 3


async def test_a_refund_in_flight_is_never_run_a_second_time_unless_a_person_says_so(
    redis_url: str, tmp_path: Path
) -> None:
    shop = Shop(tmp_path)
    amounts = {answer: f"{n}.00" for n, answer in enumerate(OUTCOMES, start=1)}
    scripts: Scripts = {
        f"^refund {answer}$": [
            asks(use(f"toolu_{amount[0]}", "issue_refund", orderId="A-1001", amount=float(amount))),
            says(f"Settled: {answer}."),
        ]
        for answer, amount in amounts.items()
    }
    env = {**shop.env, "CUSTOMER_SERVICE_DELAY_SECONDS": "30"}
    async with case(redis_url, tmp_path, scripts, env=env) as product:
        turn_ids = {answer: await approved_refund(product.client, answer) for answer in OUTCOMES}
        eventually(lambda: shop.ledger.count("begin issue_refund") == len(OUTCOMES))
        product.start_worker(CUSTOMER_SERVICE_DELAY_SECONDS="0")

        killed_at = kill_the_owner(product)

        # Not run a second time: the turn asks, with the three answers that there are.
        for answer, turn_id in turn_ids.items():
            turn = await resumed(product.client, turn_id, killed_at, "parked")
            asked = turn["events"][-1]
            assert (asked["type"], asked["options"], asked["id"]) == ("question:pending", OUTCOMES, turn["item"]["id"])
            assert "issue_refund" in asked["question"]
            refused = await product.client.answer(asked["id"], "maybe")
            assert (refused.status_code, await product.client.turn(turn_id)) == (422, turn)
            assert shop.ledger.count(f"begin issue_refund A-1001 {amounts[answer]}") == 1

        for answer, turn_id in turn_ids.items():
            item = (await product.client.turn(turn_id))["item"]
            ended = (await product.client.answer(item["id"], answer, wait_s=30)).json()
            assert (ended["text"], ended.get("stopReason")) == (f"Settled: {answer}.", None)

        # Each answer leads where it should: in the world, to the model, and for those who watch.
        expected = {"run again": (2, 1, "Approved."), "it happened": (1, 0, "Unknown."), "it failed": (1, 0, "Error.")}
        words = {"run again": "receipt", "it happened": "it happened", "it failed": "did not happen"}
        for answer, turn_id in turn_ids.items():
            begun = shop.ledger.count(f"begin issue_refund A-1001 {amounts[answer]}")
            ended_count = shop.ledger.count(f"end issue_refund A-1001 {amounts[answer]}")
            turn = await product.client.turn(turn_id)
            check_numbers(turn)
            (result,) = [event["statusText"] for event in turn["events"] if event["type"] == "tool:result"]
            assert (begun, ended_count, result) == expected[answer]
            _, told = requests_about(product.fake.requests, f"refund {answer}")
            ((_, text, _),) = results_in(told)
            assert words[answer] in text


async def approved_refund(client: Client, answer: str) -> str:
    parked = (await client.say(f"s {answer}", f"refund {answer}", wait_s=30, agent=SHOP)).json()
    assert (await client.decide(parked["id"], "allow", by="kim")).status_code in (200, 202)
    return str(parked["turnId"])
