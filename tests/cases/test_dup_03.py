"""DUP-03: the client repeats its POST.

The documented rules (docs/http.md): a key is 1 to 255 printable ASCII characters, belongs to the tenant, and stands for
the whole request, session included. Without a key two equal messages are two turns.
"""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import redis

from tests.cases.client import Client
from tests.cases.ledger import AGENT, asks, says, use
from tests.cases.product import Product, case
from tests.processes import eventually_async

COPIES = 20
RULES = ["{tool: ledger_add, decision: allow}", "{tool: failing_add, decision: ask}"]
SCRIPTS: dict[str, Any] = {
    f"^{name}$": [asks(use(f"toolu_{name}", "ledger_add", key=name)), says(f"{name} is added.")]
    for name in ("cut", "copies", "other")
}
SCRIPTS |= {
    "^parked$": [asks(use("toolu_parked", "failing_add", key="parked")), says("parked is added.")],
    "^length": [says("Taken.")],
    "^twice$": [says("Again.")],
}


async def post(client: Client, key: str, text: str, session: str | None = "s", wait_s: int = 30) -> httpx2.Response:
    headers = {"idempotency-key": key, "prefer": f"wait={wait_s}"}
    body = {"message": text, **({"sessionId": session} if session else {})}
    return await client.http.post(f"/agents/{AGENT}/messages", json=body, headers=headers)


def turns_stored(redis_url: str) -> int:
    with redis.Redis.from_url(redis_url) as raw:
        return len(raw.keys("loop:*:t:*:ev"))


async def test_a_repeated_post_is_the_same_turn(redis_url: str, tmp_path: Path) -> None:
    async with case(redis_url, tmp_path, SCRIPTS, apis=2, workers=2, rules=RULES) as product:
        first = await a_cut_connection_and_a_repeat(product)
        await twenty_copies_at_once(product)
        await other_text_session_or_tenant(product, first)
        await after_the_end_after_a_restart_and_while_parked(product, first)
        await keys_of_any_length(product)

        # "If the product offers no key at all, two equal messages are two turns": so it is for a message without one.
        answers = [(await product.client.say("plain", "twice")).json() for _ in range(2)]
        assert len({answer["turnId"] for answer in answers}) == 2


async def a_cut_connection_and_a_repeat(product: Product) -> str:
    # 1. "`SAY` with an Idempotency-Key; cut the connection before the answer; send it again."
    before = turns_stored(product.redis_url)
    cut_after_sending(product.client.url, "k-cut", '{"message": "cut", "sessionId": "s"}')
    await eventually_async(lambda: has_turns(product, before + 1))
    again = await post(product.client, "k-cut", "cut")
    # "One turn for 1 and 2;"
    assert (again.status_code, again.json()["text"]) == (200, "cut is added.")
    assert [turn["turnId"] for turn in (await product.client.show("s"))["turns"]] == [again.json()["turnId"]]
    assert product.ledger.begun() == ["cut"]
    return str(again.json()["turnId"])


def cut_after_sending(url: str, key: str, body: str) -> None:
    """A client that sends a whole request and is gone."""
    place = urlsplit(url)
    head = f"POST /agents/{AGENT}/messages HTTP/1.1\r\nhost: {place.netloc}\r\nidempotency-key: {key}\r\n"
    head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    with socket.create_connection((place.hostname, place.port)) as connection:
        connection.sendall((head + body).encode())


async def has_turns(product: Product, count: int) -> bool:
    return turns_stored(product.redis_url) == count


async def twenty_copies_at_once(product: Product) -> None:
    # 2. "20 copies at once over two API processes."
    clients = [api.client for api in product.apis]
    answers = await asyncio.gather(*(post(clients[n % 2], "k-copies", "copies", "copies") for n in range(COPIES)))
    # "every copy gets the same turn id."
    assert {answer.status_code for answer in answers} == {200}
    [turn_id] = {answer.json()["turnId"] for answer in answers}
    assert [turn["turnId"] for turn in (await product.client.show("copies"))["turns"]] == [turn_id]
    assert product.ledger.count("begin copies") == 1
    # Without a session the copies find the same new one.
    loose = await asyncio.gather(*(post(clients[n % 2], "k-loose", "other", None) for n in range(COPIES)))
    assert len({(answer.json()["sessionId"], answer.json()["turnId"]) for answer in loose}) == 1
    assert product.ledger.count("begin other") == 1


async def other_text_session_or_tenant(product: Product, first: str) -> None:
    before, ledger = turns_stored(product.redis_url), product.ledger.lines
    # 3. "Same key, other text." "3: 409 or 422, nothing started."
    assert (await post(product.client, "k-cut", "other")).status_code == 409
    # 4. "Same key, other session": "keys are scoped by tenant (and documented by session)": the session is part of it.
    assert (await post(product.client, "k-cut", "cut", "elsewhere")).status_code == 409
    assert (turns_stored(product.redis_url), product.ledger.lines) == (before, ledger)

    # "same key, other tenant": "no cross-tenant hit, and no error that shows the other tenant used it."
    stranger = product.start_api(tenant="stranger")
    try:
        answer = await post(stranger.client, "k-cut", "length 0")
        assert (answer.status_code, answer.json()["text"]) == (200, "Taken.")
        assert answer.json()["turnId"] != first
        erased = await stranger.client.http.delete(f"/agents/{AGENT}/sessions/s")
        assert erased.status_code == 204
    finally:
        await stranger.client.aclose()


async def after_the_end_after_a_restart_and_while_parked(product: Product, first: str) -> None:
    # 5. "Same key after the turn ended, after an API restart, and while it is parked."
    # "5: the same turn id, with its present state."
    ended = (await post(product.client, "k-cut", "cut")).json()
    assert (ended["turnId"], ended["text"]) == (first, "cut is added.")
    parked = (await post(product.client, "k-parked", "parked", "parked")).json()
    assert (parked["type"], parked["sessionId"]) == ("approval", "parked")

    gone = product.apis[0]
    await gone.client.aclose()
    product.stop(gone.process)
    product.start(apis=1, workers=0)
    for api in product.apis:
        assert (await post(api.client, "k-cut", "cut")).json() == ended
        again = await post(api.client, "k-parked", "parked", "parked")
        assert (again.status_code, again.json()["turnId"], again.json()["id"]) == (202, parked["turnId"], parked["id"])

    assert (await product.client.decide(parked["id"], "allow", by="kim", wait_s=30)).status_code == 200
    done = (await post(product.client, "k-parked", "parked", "parked")).json()
    assert (done["turnId"], done["text"]) == (parked["turnId"], "parked is added.")
    assert product.ledger.count("begin parked") == 1


async def keys_of_any_length(product: Product) -> None:
    # 6. "A key of 0, 1, 255 and 10 000 characters, and one with a newline."
    # "6: refused or accepted by a documented rule, no 500."
    before = turns_stored(product.redis_url)
    for key in ("", "x" * 256, "x" * 10_000):
        assert (await post(product.client, key, "length 0", "lengths")).status_code in (400, 422), len(key)
    assert turns_stored(product.redis_url) == before
    for key in ("x", "x" * 255):
        answers = [await post(product.client, key, f"length {len(key)}", "lengths") for _ in range(2)]
        assert [answer.status_code for answer in answers] == [200, 200]
        assert len({answer.json()["turnId"] for answer in answers}) == 1
    # A header cannot hold a newline; folded or bare, HTTP itself refuses it or the rule above does.
    assert raw_answer(product.client.url, "one\r\n two").split()[1] in ("400", "422")
    assert raw_answer(product.client.url, "one\ntwo").split()[1] in ("400", "422")
    assert turns_stored(product.redis_url) == before + 2


def raw_answer(url: str, key: str) -> str:
    place, body = urlsplit(url), '{"message": "length 0", "sessionId": "lengths"}'
    head = f"POST /agents/{AGENT}/messages HTTP/1.1\r\nhost: {place.netloc}\r\nidempotency-key: {key}\r\n"
    head += f"content-type: application/json\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    with socket.create_connection((place.hostname, place.port), timeout=30) as connection:
        connection.sendall((head + body).encode())
        return connection.recv(4096).decode()
