"""SSE-01: resume with Last-Event-ID, nothing lost and nothing twice."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import httpx2
import pytest

from protocol.sse import Decoder, Frame
from tests.cases.client import Client, types_of
from tests.cases.ledger import AGENT, asks, says, use
from tests.cases.product import Product, case

STEPS, CALLS = 7, 10
LEAST_EVENTS, LEAST_CUTS, MOST_CUTS = 300, 100, 1000
HEARTBEATS = {"LOOPENGINE_HEARTBEAT_SECONDS": "0.2"}


def reading(step: int) -> dict[str, Any]:
    return asks(*(use(f"toolu_{step}_{n}", "read_note") for n in range(CALLS)), sleep=0.1)


LONG = [
    *(reading(step) for step in range(STEPS)),
    asks(use("toolu_add", "ledger_add", key="k")),
    reading(STEPS),
    says("All read."),
]


def path_of(session: str) -> str:
    return f"/agents/{AGENT}/sessions/{session}/stream"


async def read(client: Client, session: str, cursor: str, most: int, until_heartbeat: bool = False) -> list[Frame]:
    """At most ``most`` events behind ``cursor`` ("": from the start), then the client is gone. Also gone when the turn
    waits for somebody, or at the first heartbeat."""
    headers = {"last-event-id": cursor} if cursor else {}
    frames: list[Frame] = []
    decoder, raw = Decoder(cursor), b""
    async with client.http.stream("GET", path_of(session), headers=headers) as answer:
        assert answer.status_code in (200, 204), (await answer.aread()).decode()
        async for chunk in answer.aiter_raw():
            raw += chunk
            for frame in decoder.feed(chunk):
                frames.append(frame)
                if len(frames) == most or frame.event == "approval:pending":
                    return frames
            if until_heartbeat and raw.endswith(b": \n\n"):
                # "Heartbeats carry no id."
                assert raw.rpartition(b"\n\n: ")[2] == b"\n\n"
                assert decoder.last_event_id == cursor
                return frames
    return frames


async def test_a_client_that_is_cut_again_and_again_has_every_event_once_and_in_order(
    redis_url: str, tmp_path: Path
) -> None:
    async with case(redis_url, tmp_path, {"^read on$": LONG}, apis=2, env=HEARTBEATS) as product:
        # 1. "A turn of 300 events. Cut the client after every k-th event (k random) and reconnect with its last id, 100
        # times, over two API processes."
        accepted = (await product.client.say("s", "read on", wait_s=0)).json()
        chance = random.Random(1)
        joined: list[Frame] = []
        cuts = 0
        while not joined or joined[-1].event != "done":
            assert cuts < MOST_CUTS, joined
            client = product.apis[cuts % 2].client
            cursor = joined[-1].id if joined else ""
            joined += await read(client, "s", cursor, chance.randint(1, 4))
            cuts += 1
            if joined[-1].event == "approval:pending":
                await nothing_comes_and_the_cursor_stays(product, joined[-1])
                await decide_what_the_stream_shows(product, joined[-1])
        assert cuts >= LEAST_CUTS

        # "Joined events are exactly the session log's, in order."
        turn = await product.client.turn(accepted["turnId"])
        assert [json.loads(frame.data) for frame in joined] == turn["events"]
        assert len(joined) >= LEAST_EVENTS
        # "Ids only grow."
        assert [int(frame.id.split("-")[0]) for frame in joined] == list(range(1, len(joined) + 1))
        # At the end of it there is nothing more to reconnect for.
        assert await read(product.client, "s", joined[-1].id, 1) == []

        await what_was_settled_is_in_show(product, turn)
        await repeats_are_answered_alike(product, joined)
        await ids_that_are_none(product, joined)
        await by_post_and_by_get(product)


async def nothing_comes_and_the_cursor_stays(product: Product, last: Frame) -> None:
    # 2. "Reconnect with the same id three times without any event in between." (The turn is parked: only heartbeats.)
    for n in range(3):
        assert await read(product.apis[n % 2].client, "s", last.id, 1, until_heartbeat=True) == []


async def decide_what_the_stream_shows(product: Product, pending: Frame) -> None:
    # "Every event that a client may act on (approval open, ...) is found both in the stream and in SHOW."
    card = json.loads(pending.data)
    item = (await product.client.show("s"))["item"]
    assert (item["id"], item["tool"], item["args"], item["digest"]) == (
        card["id"],
        "ledger_add",
        {"key": "k"},
        card["digest"],
    )
    assert (await product.client.decide(card["id"], "allow", by="kim")).status_code in (200, 202)


async def what_was_settled_is_in_show(product: Product, turn: dict[str, Any]) -> None:
    # "(... settled, terminal) is found both in the stream and in SHOW."
    shown = await product.client.show("s")
    assert (shown["state"], "item" in shown) == ("idle", False)
    settled = {call["id"]: call["status"] for m in shown["messages"] for call in m.get("calls", [])}
    assert settled == {event["id"]: "ok" for event in turn["events"] if event["type"] == "tool:result"}
    assert len(settled) == (STEPS + 1) * CALLS + 1
    assert shown["turns"] == [{"turnId": turn["turnId"], "state": "done"}]
    assert shown["messages"][-1]["text"] == turn["events"][-1]["text"] == "All read."


async def repeats_are_answered_alike(product: Product, joined: list[Frame]) -> None:
    # 2, at any other place: the same id, three times, gives the same event three times.
    for place in (0, 149, len(joined) - 2):
        for n in range(3):
            assert await read(product.apis[n % 2].client, "s", joined[place].id, 1) == [joined[place + 1]]


async def ids_that_are_none(product: Product, joined: list[Frame]) -> None:
    # 3. "Send the ids `abc`, `-1`, empty, `0`, `99999999999999-0`, an id of another session, 10 KB of digits, one with
    # a newline escape."
    await product.client.say("other", "hello")
    foreign = (await product.client.tail("other"))[-1].id
    first = joined[0].id
    nonsense = ["abc", "-1", "0", "99999999999999-0", "7" * 10_240, f"{first}\\nid: 9", f"{first}%0aid: 9"]

    # "3: 400 or a documented full replay or reset; never a 500, never another session's events."
    for cursor in nonsense:
        answer = await product.client.http.get(path_of("s"), headers={"last-event-id": cursor})
        assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert await product.client.tail("s", "") == joined
    with pytest.raises(httpx2.LocalProtocolError):  # a real line break never leaves this client; nor would it a browser
        await product.client.http.get(path_of("s"), headers={"last-event-id": f"{first}\nid: 9"})
    beyond = f"{len(joined) + 1}-{first.split('-', 1)[1]}"
    rewritten = f"{len(joined)}-zzzzzzzz"
    for cursor in (foreign, beyond, rewritten):
        reset, *replayed = await product.client.tail("s", cursor)
        assert (reset.event, reset.id) == ("stream:reset", "")
        assert replayed == joined


async def by_post_and_by_get(product: Product) -> None:
    # 4. "`TAIL` by POST and by GET." GET tails. POST begins a turn and tails it, and says so where it does not apply.
    answer = await product.client.http.post(path_of("s"), json={})
    assert (answer.status_code, "GET" in answer.headers["allow"]) == (405, True)
    decoder = Decoder()
    frames: list[Frame] = []
    async with product.client.stream("posted", "hello") as posted:
        async for chunk in posted.aiter_raw():
            frames += decoder.feed(chunk)
    assert types_of([json.loads(frame.data) for frame in frames])[-1] == "done"
    assert frames == await product.client.tail("posted")
