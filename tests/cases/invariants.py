"""What holds in every case besides its own outcome, checked from outside when the case is over.

no 500 and no stack trace to a client · every turn ends · exactly one terminal event per turn · afterwards a plain
SAY(s,"hello") in the same session works · nothing in another tenant's view changed
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from tests.cases.client import Client, types_of
from tests.event_schema import problem_with

if TYPE_CHECKING:
    from tests.cases.product import Api, Product

Json = dict[str, Any]
MOST_SESSIONS = 500


async def these_hold_in_every_case(product: Product) -> None:
    """Needs one API process; starts a worker when there is none. What the case left open is cancelled on the way."""
    if not product.workers:
        product.start_worker()
    client = product.client
    sessions = await _sessions(client)
    await asyncio.gather(*(_is_not_bricked(client, session) for session in sessions))
    turn_ids = [
        turn for told in await asyncio.gather(*(_check_turns(client, session) for session in sessions)) for turn in told
    ]
    await _nothing_is_seen_by_others(product.start_api(tenant="onlooker"), sessions, turn_ids)
    # The strict model refused nothing, and nobody called it more often than the case says.
    assert product.fake.refusals == []
    assert product.conversations.missing == []
    # No 500 and no stack trace to a client; and none in a log either.
    assert product.faults == []
    for log in product.folder.glob("*.log"):
        assert "Traceback" not in log.read_text(errors="replace"), log.read_text(errors="replace")


async def _sessions(client: Client) -> list[str]:
    answer = await client.http.get("/agents/ledger/sessions", params={"limit": MOST_SESSIONS})
    return [line["sessionId"] for line in answer.json()["sessions"]]


async def _is_not_bricked(client: Client, session: str) -> None:
    while (await client.show(session))["state"] != "idle":
        assert (await client.cancel(session)).status_code == 200
    said = await client.say(session, "hello", wait_s=60)
    assert said.status_code == 200, said.text
    assert (said.json()["text"], said.json().get("stopReason")) == ("Hello to you.", None)


async def _check_turns(client: Client, session: str) -> list[str]:
    turn_ids = [turn["turnId"] for turn in (await client.show(session))["turns"]]
    for turn_id in turn_ids:
        turn = await client.turn(turn_id)
        assert turn["state"] == "done", turn
        _check_events(turn["events"])
        frames = await client.tail(session, turn=turn_id)
        assert [json.loads(frame.data) for frame in frames] == turn["events"]
        assert [frame.event for frame in frames] == types_of(turn["events"])
        assert [int(frame.id.split("-")[0]) for frame in frames] == list(range(1, len(frames) + 1))
    return turn_ids


def _check_events(events: list[Json]) -> None:
    assert [problem for event in events if (problem := problem_with(json.dumps(event)))] == []
    types = types_of(events)
    assert types[0] == "session"
    assert types.index("done") == len(types) - 1, types  # exactly one terminal event, and it is the last
    ids = [event["id"] for event in events if event["type"] == "tool:result"]
    assert len(ids) == len(set(ids)), ids
    started = [event["id"] for event in events if event["type"] == "tool:started"]
    assert len(started) == len(set(started)), started


async def _nothing_is_seen_by_others(onlooker: Api, sessions: list[str], turn_ids: list[str]) -> None:
    client = onlooker.client
    try:
        assert await _sessions(client) == []
        assert await client.pending() == []
        paths = [f"/turns/{turn_id}" for turn_id in turn_ids] + [f"/agents/ledger/sessions/{id_}" for id_ in sessions]
        for path in paths[:100]:
            assert (await client.http.get(path)).status_code == 404
    finally:
        await client.aclose()
