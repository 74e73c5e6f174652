"""LOCK-01: ten messages to one session at once.

The documented rule (docs/http.md): messages wait in line in the order of their acceptance and run one after the other;
with ``onBusy: reject`` a busy session answers 409.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.cases.client import types_of
from tests.cases.ledger import asks, says, use
from tests.cases.product import Product, case
from tests.fake_provider.script import Entry, latest_text

MESSAGES = 10
SESSIONS = ("plain", "parked", "cancelled")
RULES = ["{tool: ledger_add, decision: allow}", "{tool: failing_add, decision: ask}"]
WORK_S = 0.05
"""In the model and again in the tool; the case's turns of 2 s would show the same more slowly."""


def counting(session: str, number: int) -> list[Entry]:
    call = use(f"toolu_{number}", "ledger_add", key=f"{session}-{number}", secs=WORK_S)
    return [asks(call, sleep=WORK_S), says(f"Answer {number} of {session}.")]


SCRIPTS = {f"^{session} {n}$": counting(session, n) for session in SESSIONS for n in range(MESSAGES)}
SCRIPTS |= {"^gate$": [asks(use("toolu_gate", "failing_add", key="gate")), says("The gate was opened.")]}


async def say_all(product: Product, session: str, wait_s: int) -> list[dict[str, Any]]:
    """Ten messages in the same instant, over all API processes: their answers, all of them accepted."""
    clients = [api.client for api in product.apis]
    answers = await asyncio.gather(
        *(clients[n % len(clients)].say(session, f"{session} {n}", wait_s=wait_s) for n in range(MESSAGES))
    )
    assert {answer.status_code for answer in answers} <= {200, 202}, [answer.text for answer in answers]
    return [answer.json() for answer in answers]


async def check_the_line(product: Product, session: str, accepted: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The turns of a session in their order, each checked for itself and against the others."""
    shown = await product.client.show(session)
    turns = [await product.client.turn(line["turnId"]) for line in shown["turns"]]
    said = {answer["turnId"]: f"{session} {n}" for n, answer in enumerate(accepted)}
    mine = [turn["turnId"] for turn in turns if turn["turnId"] in said]

    # "Accepted messages are in history once each, in the order of their sequence numbers;"
    assert sorted(mine) == sorted(said)
    history = [(m["turnId"], m["text"]) for m in shown["messages"] if m["role"] == "user" and m["turnId"] in said]
    assert history == [(turn_id, said[turn_id]) for turn_id in mine]

    # "events of two turns never interleave;" Each turn has a stream of its own, and none begins its work before the one
    # in front has ended: neither at the model nor in the ledger.
    order = [said[turn_id] for turn_id in mine]
    asked = [text for body in product.fake.requests if (text := latest_text(body)) in said.values()]
    assert list(dict.fromkeys(asked)) == [text for text in order if text in asked]
    assert asked == sorted(asked, key=order.index)
    begun = [key for key in product.ledger.begun() if key.startswith(f"{session}-")]
    assert begun == [key for text in order if (key := text.replace(" ", "-")) in begun]

    # "roles alternate for the strict model." It refuses calls without results as well (checked in every case).
    last = [body for body in product.fake.requests if latest_text(body) in said.values()][-1]
    roles = [message["role"] for message in last["messages"]]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]

    # "The number of terminal events equals the number of accepted turns."
    assert [types_of(turn["events"]).count("done") for turn in turns] == [1] * len(turns)
    return turns


async def test_ten_messages_at_once_become_ten_turns_one_after_the_other(redis_url: str, tmp_path: Path) -> None:
    async with case(redis_url, tmp_path, SCRIPTS, apis=2, workers=4, wire="anthropic", rules=RULES) as product:
        # 1. "10 SAY to one session in the same instant over two API processes, 4 workers, each turn (...) with one tool
        # call."
        answers = await say_all(product, "plain", wait_s=60)
        turns = await check_the_line(product, "plain", answers)
        assert len(turns) == MESSAGES
        assert [answer["text"] for answer in answers] == [f"Answer {n} of plain." for n in range(MESSAGES)]
        lines = [line.split()[:2] for line in product.ledger.lines]
        assert [word for word, _ in lines] == ["begin", "end"] * MESSAGES
        assert [key for _, key in lines[::2]] == [key for _, key in lines[1::2]]

        await while_a_turn_is_parked(product)
        await with_a_cancel_among_them(product)


async def while_a_turn_is_parked(product: Product) -> None:
    # 2. "The same while a turn is parked."
    gate = (await product.client.say("parked", "gate", wait_s=60)).json()
    answers = await say_all(product, "parked", wait_s=60)
    assert [(answer["id"], answer["queued"]) for answer in answers] == [(gate["id"], True)] * MESSAGES
    assert not [key for key in product.ledger.begun() if key.startswith("parked-")]

    # "A 409 tells which turn is in the way."
    refused = await product.apis[-1].client.say("parked", "parked 0", onBusy="reject")
    assert (refused.status_code, refused.json()["turnId"], refused.json()["item"]["id"]) == (
        409,
        gate["turnId"],
        gate["id"],
    )

    assert (await product.client.decide(gate["id"], "allow", by="kim")).status_code in (200, 202)
    for answer in answers:
        await product.client.settled(answer["turnId"], "done")
    turns = await check_the_line(product, "parked", answers)
    assert (turns[0]["turnId"], len(turns)) == (gate["turnId"], MESSAGES + 1)
    assert [turn.get("stopReason") for turn in turns] == [None] * (MESSAGES + 1)


async def with_a_cancel_among_them(product: Product) -> None:
    # 3. "The same with one CANCEL among them."
    saying = asyncio.create_task(say_all(product, "cancelled", wait_s=0))
    cancel = await cancel_what_runs(product, "cancelled")
    answers = await saying
    for answer in answers:
        await product.client.settled(answer["turnId"], "done")
    turns = await check_the_line(product, "cancelled", answers)
    assert len(turns) == MESSAGES
    # The one that was cancelled says so, and all the others were answered.
    for turn in turns:
        was_cancelled = turn["turnId"] == cancel["turnId"]
        assert (turn.get("stopReason"), bool(turn["text"])) == (
            "cancelled" if was_cancelled else None,
            not was_cancelled,
        )


async def cancel_what_runs(product: Product, session: str) -> dict[str, Any]:
    """The answer of the first CANCEL that found something to cancel."""
    async with asyncio.timeout(30):
        while True:
            answer = await product.apis[-1].client.cancel(session)
            if answer.status_code == 200 and answer.json()["cancelled"]:
                return dict(answer.json())
            assert answer.status_code in (200, 404), answer.text
            await asyncio.sleep(0.01)
