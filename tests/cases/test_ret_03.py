"""RET-03: deleted means deleted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import redis

from engine.store.keys import session_ref, turn_ref
from tests.cases.client import Client, frames_of
from tests.cases.ledger import AGENT, asks, says, use
from tests.cases.product import TENANT, Product, case
from tests.processes import eventually, eventually_async

TOOL_S = 3.0
"""The case's tool takes 20 s; what counts is that its result comes when everything is gone."""
RULES = ["{tool: ledger_add, decision: allow}", "{tool: failing_add, decision: ask}"]
SCRIPTS: dict[str, Any] = {
    "^tool$": [asks(use("toolu_t", "ledger_add", key="late", secs=TOOL_S)), says("Too late.")],
    "^park$": [asks(use("toolu_p", "failing_add", key="parked")), says("Too late.")],
    "^think$": [says("Too late.", sleep=TOOL_S)],
    "^retry$": [[{"status": 429, "headers": {"retry-after": "2"}, "body": {"error": {"message": "later"}}}]],
    "^again$": [says("All new.")],
}
STATES = {"tool": "running", "park": "parked", "think": "running", "retry": "queued"}


async def test_nothing_of_a_deleted_session_is_left_or_comes_back(redis_url: str, tmp_path: Path) -> None:
    # The timers: open items expire while the case looks.
    env = {"LOOPENGINE_APPROVAL_EXPIRY_SECONDS": "4"}
    async with case(redis_url, tmp_path, SCRIPTS, rules=RULES, env=env) as product:
        client = product.client
        turns = await sessions_in_every_phase(product)
        item = (await client.opened("park"))["id"]
        # (d) "while a client tails it": one of each.
        opened: set[str] = set()
        tails = {name: asyncio.create_task(types_until_end(client, name, opened)) for name in turns}
        await eventually_async(lambda: all_of(turns, opened))

        # "delete the session (a) while its turn runs a 20 s tool, (b) while parked, (c) while queued, (...) (e) while
        # compaction runs": there what runs is the model's call; compaction is a record of such a step.
        # "(f) twice at once".
        for name in turns:
            answers = await asyncio.gather(delete(client, name), delete(client, name))
            assert sorted(answers) in ([204, 204], [204, 404]), answers
        assert traces_of(product, turns) == []

        # "the open stream gets one terminal event and ends."
        for name, tail in tails.items():
            async with asyncio.timeout(5):
                types = await tail
            assert types.count("done") == 1, (name, types)
            assert types[-1] == "done", (name, types)

        # "`DECIDE` and `TAIL` give 404"
        assert (await client.decide(item, "allow", by="kim")).status_code == 404
        assert await client.pending() == []
        for name, turn_id in turns.items():
            assert (await client.http.get(f"/turns/{turn_id}")).status_code == 404
            assert (await client.http.get(f"/agents/{AGENT}/sessions/{name}/stream")).status_code == 404
            assert (await client.http.get(f"/agents/{AGENT}/sessions/{name}")).status_code == 404

        # "then let late results, decisions, timers and retries arrive": the tool has come to its end, and more beats
        # than the retry, the expiry and the lease take have passed.
        eventually(lambda: product.ledger.count("end late"))
        product.wait_for_beats(8)
        # "After LEASE no key with the id is left and none comes back (check for 5 minutes)." Nothing is due, nothing
        # runs: nothing is left that could write one.
        assert traces_of(product, turns) == []
        assert product.due() == 0
        with redis.Redis.from_url(redis_url) as raw:
            assert [key for key in raw.keys("loop:*") if key.endswith(b"}:run") or b"}:busy:" in key] == []
        # "The tool's late result is dropped." The model was never asked what follows,
        assert product.ledger.begun() == ["late"]
        assert len(product.fake.requests) == len(turns)
        # "The worker does not fail noisily or retry for ever."
        [worker] = product.workers
        assert "[error" not in worker.output
        assert "crashed" not in worker.output

        # "then create a session with the same id." "The new session starts empty."
        for name in turns:
            said = (await client.say(name, "again")).json()
            assert said["text"] == "All new."
            assert [turn["turnId"] for turn in (await client.show(name))["turns"]] == [said["turnId"]]
            users = [m for m in product.fake.requests[-1]["messages"] if m["role"] == "user"]
            assert [m["content"] for m in users] == ["again"]


async def sessions_in_every_phase(product: Product) -> dict[str, str]:
    """One session each, named after what its turn does; their turn ids."""
    turns: dict[str, str] = {}
    for name, state in STATES.items():
        turns[name] = (await product.client.say(name, name, wait_s=0)).json()["turnId"]
        await product.client.settled(turns[name], state)
    await eventually_async(lambda: waits_for_its_provider(product, turns["retry"]))
    eventually(lambda: product.ledger.count("begin late"))
    return turns


async def waits_for_its_provider(product: Product, turn_id: str) -> bool:
    turn = await product.client.turn(turn_id)
    return turn["state"] == "queued" and len(product.fake.requests) == len(STATES)


async def all_of(turns: dict[str, str], opened: set[str]) -> bool:
    return opened == turns.keys()


async def types_until_end(client: Client, session: str, opened: set[str]) -> list[str]:
    types: list[str] = []
    async with client.http.stream("GET", f"/agents/{AGENT}/sessions/{session}/stream") as answer:
        assert answer.status_code == 200
        async for frame in frames_of(answer):
            types.append(str(frame.event))
            opened.add(session)
    return types


async def delete(client: Client, session: str) -> int:
    return (await client.http.delete(f"/agents/{AGENT}/sessions/{session}")).status_code


def traces_of(product: Product, turns: dict[str, str]) -> list[bytes]:
    """Keys that name a session or a turn of it, and members of common keys that do."""
    names = [session_ref(TENANT, AGENT, name).encode() for name in turns]
    names += [turn_ref(TENANT, turn_id).encode() for turn_id in turns.values()]
    found: list[bytes] = []
    with redis.Redis.from_url(product.redis_url) as raw:
        for key in raw.keys("loop:*"):
            held = {b"zset": lambda k: raw.zrange(k, 0, -1), b"set": raw.smembers, b"hash": raw.hvals}
            members = held.get(raw.type(key), lambda _: [])(key)
            # A worker's latest claim is remembered by the worker's name, whatever became of its turn.
            texts = [key, *([] if key.endswith(b":claims") else members)]
            found += [text for text in texts if any(name in text for name in names)]
    return found
