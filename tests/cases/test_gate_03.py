"""GATE-03: the same approval decided twice, and decided both ways."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
import redis

from tests.cases.conversations import requests_about
from tests.cases.ledger import asks, says, use
from tests.cases.product import Product, case

AT_ONCE = 20
ROUNDS = 5  # of step 2: who wins is chance, so that both get theirs
HOUR_S = 3600


def script(key: str) -> list[dict[str, Any]]:
    return [asks(use(f"toolu_{key}", "ledger_add", key=key, secs=0.2)), says("Added.")]


async def park(product: Product, key: str) -> dict[str, Any]:
    answer = await product.client.say(f"s-{key}", f"add {key}", wait_s=60)
    assert answer.status_code == 202, answer.text
    return dict(answer.json())


async def outcome(product: Product, parked: dict[str, Any], won: dict[str, Any], calls_of_model: int) -> dict[str, Any]:
    """The turn, done; with what has to hold of its one decision."""
    turn = await product.client.settled(parked["turnId"], "done")
    # "Exactly one decision is recorded, with who and when, ..."
    assert won["by"].startswith("client ")
    assert datetime.fromisoformat(won["at"]).tzinfo is not None
    assert won["digest"] == parked["digest"]
    # "... and there is one decision event."
    events = [event for event in turn["events"] if event["type"] == "actauth:decision"]
    decision = {"approve": "allow", "deny": "deny"}[won["what"]]
    assert [event["decision"] for event in events] == [decision]
    # "No request starts a second resume (count model calls)."
    assert len(requests_about(product.fake.requests, f"add {parked['args']['key']}")) == calls_of_model
    return turn


async def test_an_approval_is_decided_once_whoever_says_it_again_or_says_otherwise(
    redis_url: str, tmp_path: Path
) -> None:
    keys = ["same", "late", *(f"both{number}" for number in range(ROUNDS))]
    scripts = {f"^add {key}$": script(key) for key in keys}
    async with case(redis_url, tmp_path, scripts, apis=2, workers=2) as product:
        await twenty_allow_at_once(product)
        for number in range(ROUNDS):
            await ten_allow_against_ten_deny(product, f"both{number}")
        await allow_and_when_the_tool_is_through_deny(product)
        # 4: again for the ones that were decided first, with everything else long over.
        await resend_an_hour_later(product, "s-same")


async def at_once(product: Product, item: str, ways: list[Any]) -> list[httpx2.Response]:
    """Each way from another client, spread over the API processes."""
    return await asyncio.gather(
        *(
            product.apis[number % 2].client.decide(item, way, wait_s=60, by=f"client {number}")
            for number, way in enumerate(ways)
        )
    )


async def twenty_allow_at_once(product: Product) -> None:
    parked = await park(product, "same")
    # 1. 20 clients send DECIDE allow for one id at once.
    answers = await at_once(product, parked["id"], ["allow"] * AT_ONCE)

    # "Repeats of the winning decision answer 200 with the recorded decision;"
    assert [answer.status_code for answer in answers] == [200] * AT_ONCE
    won = answers[0].json()["decision"]
    assert all(answer.json()["decision"] == won for answer in answers)
    await outcome(product, parked, won, 2)
    # "Ledger lines: 1, ..."
    assert product.ledger.count("begin same") == 1


async def ten_allow_against_ten_deny(product: Product, key: str) -> None:
    parked = await park(product, key)
    # 2. New item: 10 allow against 10 deny at once.
    answers = await at_once(product, parked["id"], ["allow", "allow", "deny", "deny"] * (AT_ONCE // 4))

    # "Repeats of the winning decision answer 200 with the recorded decision; the losers answer 409 with the
    # recorded decision."
    assert sorted(answer.status_code for answer in answers) == [200] * (AT_ONCE // 2) + [409] * (AT_ONCE // 2)
    won = answers[0].json()["decision"]
    assert all(answer.json()["decision"] == won for answer in answers)
    allowed = won["what"] == "approve"
    winners = {number for number, answer in enumerate(answers) if answer.status_code == 200}
    assert winners == {number for number in range(AT_ONCE) if (number % 4 < 2) == allowed}
    turn = await outcome(product, parked, won, 2 if allowed else 1)
    assert turn.get("stopReason") == (None if allowed else "denied")
    # "... 0 or 1, ..."
    assert product.ledger.count(f"begin {key}") == int(allowed)


async def allow_and_when_the_tool_is_through_deny(product: Product) -> None:
    parked = await park(product, "late")
    # 3. New item: allow, let the tool finish, then send deny.
    allowed = await product.client.decide(parked["id"], "allow", wait_s=60, by="client 1")
    assert (allowed.status_code, product.ledger.count("end late")) == (200, 1)
    denied = await product.client.decide(parked["id"], "deny", wait_s=60, by="client 2")

    # "the losers answer 409 with the recorded decision."
    assert (denied.status_code, denied.json()["decision"]) == (409, allowed.json()["decision"])
    turn = await outcome(product, parked, allowed.json()["decision"], 2)
    assert turn.get("stopReason") is None
    # "... 1."
    assert product.ledger.count("begin late") == 1


async def resend_an_hour_later(product: Product, session: str) -> None:
    (turn,) = (await product.client.show(session))["turns"]
    before = await product.client.turn(turn["turnId"])
    (item,) = [event["id"] for event in before["events"] if event["type"] == "approval:pending"]
    # 4. Resend the winning decision an hour later. Instead of waiting: what holds the decision stays for much longer,
    # and nothing but its end of life will touch it.
    with redis.Redis.from_url(product.redis_url) as client:
        (key,) = (key for key in client.keys(f"loop:*:t:*{turn['turnId']}") if client.type(key) == b"hash")
        assert client.ttl(key) > HOUR_S
    assert product.due() == 0
    calls_of_model = len(product.fake.requests)
    again = await product.client.decide(item, "allow", wait_s=60, by="client 99")

    # "Repeats of the winning decision answer 200 with the recorded decision;" - and start nothing.
    assert again.status_code == 200, again.text
    assert (again.json()["decision"]["what"], again.json()["text"]) == ("approve", "Added.")
    assert again.json()["decision"]["by"] != "client 99"
    assert await product.client.turn(turn["turnId"]) == before
    assert len(product.fake.requests) == calls_of_model
