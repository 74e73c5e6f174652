"""GATE-01: three parallel calls, one allowed, one asked, one denied."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

from tests.cases.client import Client, types_of
from tests.cases.conversations import requests_about, results_in
from tests.cases.ledger import asks, says, use
from tests.cases.product import Product, case

READ, ADD, WIPE = (
    use("toolu_r", "read_note"),
    use("toolu_k", "ledger_add", key="k1", amount=5),
    use("toolu_w", "wipe_all"),
)
SETTLED = says("All settled.")
SCRIPTS = {"^three$": [asks(READ, ADD, WIPE), SETTLED], "^two": [asks(READ, ADD), SETTLED]}
MIXES = ["".join(mix) for length in range(1, 6) for mix in itertools.product("ar", repeat=length)]
"""Every order of asked (a) and allowed (r) in 1 to 5 calls: 62."""


async def test_a_rule_that_denies_one_call_cancels_the_batch_before_a_person_is_asked(
    redis_url: str, tmp_path: Path
) -> None:
    async with case(redis_url, tmp_path, SCRIPTS, wire="anthropic") as product:
        answer = await product.client.say("s", "three", wait_s=60)

        # 1: "a rule's denial cancels the batch before any person is asked: PENDING is empty, the ledger too;"
        assert answer.status_code == 200, answer.text
        assert await product.client.pending() == []
        assert product.ledger.lines == []
        events = answer.json()["events"]
        assert "approval:pending" not in types_of(events)
        # "the denied call gets tool:result "Denied.", the others loop:skipped and "Skipped.";"
        results = [event for event in events if event["type"] in ("tool:result", "loop:skipped")]
        assert [(event.get("tool") or event["name"], event.get("statusText")) for event in results] == [
            ("read_note", None), ("read_note", "Skipped."), ("ledger_add", None), ("ledger_add", "Skipped."),
            ("wipe_all", "Denied."),
        ]  # fmt: skip
        assert all(event["deniedTools"] == ["wipe_all"] for event in events if event["type"] == "loop:skipped")
        # "the model gets three error results in one user message, in call order, and goes on."
        _, second = requests_about(product.fake.requests, "three")
        last = second["messages"][-1]
        assert (last["role"], [block["type"] for block in last["content"]]) == ("user", ["tool_result"] * 3)
        assert [(id_, is_error) for id_, _, is_error in results_in(second)] == [
            ("toolu_r", True), ("toolu_k", True), ("toolu_w", True),
        ]  # fmt: skip
        assert (answer.json()["text"], answer.json().get("stopReason")) == ("All settled.", None)


async def test_nothing_of_a_batch_runs_before_its_approval_which_outlives_every_worker(
    redis_url: str, tmp_path: Path
) -> None:
    async with case(redis_url, tmp_path, SCRIPTS, workers=2) as product:
        # 2 and 3. "The same script without its last call. SAY." - in one session to deny, in another to allow.
        to_deny = (await product.client.say("denied", "two", wait_s=60)).json()
        to_allow = (await product.client.say("allowed", "two again", wait_s=60)).json()
        # "When parked, kill and restart every worker."
        product.kill(*product.workers)
        product.start(apis=0, workers=2)

        # 2: "while parked, one open item, no begin and no read in the ledger."
        for session, parked in (("denied", to_deny), ("allowed", to_allow)):
            assert [item["id"] for item in await product.client.pending(session)] == [parked["id"]]
        assert product.ledger.lines == []
        await a_denial_ends_the_turn_and_the_session_goes_on(product, to_deny)
        await an_approval_lets_each_call_run_once(product, to_allow)


async def a_denial_ends_the_turn_and_the_session_goes_on(product: Product, parked: dict[str, Any]) -> None:
    # 3. "As 2, but DECIDE deny with a reason."
    await product.client.decide(parked["id"], "deny", reason="not this month", by="kim")
    turn = await product.client.settled(parked["turnId"], "done")

    # 3: "ledger empty;"
    assert product.ledger.lines == []
    # "loop:denied, then done with stopReason denied;"
    denied, done = turn["events"][-2:]
    assert (denied["type"], denied["deniedTools"]) == ("loop:denied", ["ledger_add"])
    assert (done["type"], done["stopReason"]) == ("done", "denied")
    # "the next message of the session works, ..."
    next_one = await product.client.say("denied", "hello", wait_s=60)
    assert (next_one.status_code, next_one.json()["text"]) == (200, "Hello to you.")
    # "... and the model then sees a result for every call." (and the person's reason)
    (request,) = requests_about(product.fake.requests, "hello")
    results = {id_: text for id_, text, _ in results_in(request)}
    assert list(results) == ["toolu_r", "toolu_k"]
    assert "not this month" in results["toolu_k"]


async def an_approval_lets_each_call_run_once(product: Product, parked: dict[str, Any]) -> None:
    # 2. "DECIDE allow."
    decided = await product.client.decide(parked["id"], "allow", by="kim")
    turn = await product.client.settled(parked["turnId"], "done")

    assert decided.status_code == 202
    # 2: "After: read once, begin k1 once, ..." and the end of k1: nothing else
    assert (product.ledger.count("read"), product.ledger.count("begin k1")) == (1, 1)
    assert len(product.ledger.lines) == 3
    # "... two results in call order."
    _, second = requests_about(product.fake.requests, "two again")
    assert [(id_, text) for id_, text, _ in results_in(second)] == [
        ("toolu_r", "the note says hi"), ("toolu_k", "added k1"),
    ]  # fmt: skip
    assert (turn["text"], turn.get("stopReason")) == ("All settled.", None)


async def test_the_approvals_of_a_batch_come_up_one_at_a_time_in_call_order(redis_url: str, tmp_path: Path) -> None:
    scripts = {f"^mix {mix}$": [mixed(mix), SETTLED] for mix in MIXES}
    async with case(redis_url, tmp_path, scripts, workers=2) as product:
        # 4. "As 2, with 1, 2, ... 5 calls in every order of allowed and asked."
        turns = await asyncio.gather(*(approve_all(product.client, mix) for mix in MIXES))

        for mix, turn in zip(MIXES, turns, strict=True):
            asked = [f"{mix}{pos}" for pos, kind in enumerate(mix) if kind == "a"]
            # 4: "at no time more than one open item; they come up in call order."
            opened = [event for event in turn["events"] if event["type"] in ("approval:pending", "actauth:decision")]
            opened = [event for event in opened if event["tool"] == "ledger_add"]
            assert types_of(opened) == ["approval:pending", "actauth:decision"] * len(asked)
            assert [event["args"]["key"] for event in opened[::2]] == asked
            # As in 2: each call ran once, in call order, and only behind the last decision.
            types = types_of(turn["events"])
            if asked:
                last = len(types) - 1 - types[::-1].index("actauth:decision")
                assert types.index("tool:started") > last
            assert [key for key in product.ledger.begun() if key in asked] == asked
        assert product.ledger.count("read") == "".join(MIXES).count("r")


def mixed(mix: str) -> dict[str, Any]:
    return asks(
        *(
            use(f"toolu_{mix}{pos}", "ledger_add", key=f"{mix}{pos}")
            if kind == "a"
            else use(f"toolu_{mix}{pos}", "read_note")
            for pos, kind in enumerate(mix)
        )
    )


async def approve_all(client: Client, mix: str) -> dict[str, Any]:
    """The turn, done. Whenever it is parked there is exactly one open item."""
    answer = (await client.say(f"s-{mix}", f"mix {mix}", wait_s=60)).json()
    while answer.get("pending"):
        (item,) = await client.pending(f"s-{mix}")
        assert item["id"] == answer["id"]
        answer = (await client.decide(answer["id"], "allow", wait_s=60)).json()
    return await client.turn(answer["turnId"])
