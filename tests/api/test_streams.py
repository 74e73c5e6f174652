"""Event streams: framing, resuming, resetting, ending; and what they cost and survive."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import orjson
import redis

from engine.store.keys import Keys, turn_ref
from protocol.sse import Cursor
from tests.api.service import Service, events_of, frames_of


def stream_of(turn: dict[str, Any]) -> str:
    return f"{turn['statusUrl']}/stream"


async def test_a_streamed_message_brings_its_events_live_from_session_to_done(served: Service) -> None:
    async with served.http.stream("POST", "/agents/clerk/messages/stream", json={"message": "look"}) as answer:
        frames = [frame async for frame in frames_of(answer)]

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert (answer.headers["cache-control"], answer.headers["x-accel-buffering"]) == ("no-store", "no")
    events = events_of(frames)
    assert [frame.event for frame in frames] == [event["type"] for event in events]
    assert (events[0]["type"], events[-1]) == ("session", {"type": "done", "text": "Done."})
    assert [int(frame.id.split("-")[0]) for frame in frames] == list(range(1, len(frames) + 1))
    shown = (await served.http.get(f"/turns/{events[0]['turnId']}")).json()
    assert shown["events"] == events


async def test_a_stream_stays_open_over_a_parked_turn_and_goes_on_after_the_decision(served: Service) -> None:
    seen: list[str] = []
    async with served.http.stream("POST", "/agents/clerk/messages/stream", json={"message": "pay"}) as answer:
        async for frame in frames_of(answer):
            seen.append(frame.event)
            if frame.event == "approval:pending":
                card = orjson.loads(frame.data)
                approved = await served.http.post(f"/approvals/{card['id']}/approve")
                assert approved.status_code == 200

    assert seen.index("approval:pending") < seen.index("tool:started", seen.index("approval:pending"))
    assert seen[-1] == "done"


async def test_a_client_that_reconnects_after_every_event_reads_what_an_uninterrupted_one_reads(
    served: Service,
) -> None:
    turn = await served.start("slow")

    async def reconnecting() -> list[Any]:
        frames, last = [], None
        while new := await served.read(stream_of(turn), last, most=1):
            frames += new
            last = new[-1].id
        return frames

    whole, torn, late = await asyncio.gather(
        served.read(stream_of(turn)), reconnecting(), served.read(f"{stream_of(turn)}?turn={turn['turnId']}")
    )

    assert len(whole) > 10
    assert torn == whole == late
    assert await served.read(stream_of(turn), whole[4].id) == whole[5:]


async def test_the_same_cursor_gives_the_same_rest_again_and_at_done_there_is_nothing(served: Service) -> None:
    turn = (await served.send("look")).json()
    url = f"/agents/clerk/sessions/{turn['sessionId']}/stream"
    whole = await served.read(url)

    for _ in range(3):
        assert await served.read(url, whole[2].id) == whole[3:]
    answer = await served.http.get(url, headers={"last-event-id": whole[-1].id})
    assert (answer.status_code, answer.content) == (204, b"")


async def test_a_cursor_that_is_none_is_refused_and_an_empty_one_starts_over(api: Service) -> None:
    turn = await api.start("look")

    for cursor in ("abc", "-1", "0", "99999999999999-0", "9" * 10_000, "1-abcdefgh\tid: 2", "1-abc", "01-abcdefgh"):
        answer = await api.http.get(stream_of(turn), headers={"last-event-id": cursor})
        assert answer.status_code == 400, cursor
        assert answer.json()["error"].startswith("Last-Event-ID")
    posted = await api.http.post(
        "/agents/clerk/messages/stream", json={"message": "look"}, headers={"last-event-id": "abc"}
    )
    assert posted.status_code == 400
    assert len((await api.http.get("/agents/clerk/sessions")).json()["sessions"]) == 1
    assert [frame.event for frame in await api.read(stream_of(turn), "", most=1)] == ["session"]


async def test_a_cursor_of_another_turn_or_a_lost_event_gets_a_reset_and_everything_again(served: Service) -> None:
    other, turn = (await served.send("look")).json(), (await served.send("look")).json()
    foreign = await served.read(f"/agents/clerk/sessions/{other['sessionId']}/stream")
    url = f"/agents/clerk/sessions/{turn['sessionId']}/stream"
    whole = await served.read(url)

    for cursor in (foreign[3].id, foreign[-1].id, str(Cursor(999, whole[0].id.split("-")[1]))):
        frames = await served.read(url, cursor)
        assert (frames[0].event, frames[1:]) == ("stream:reset", [*frames[1:]])
        assert events_of(frames)[0].keys() == {"type", "reason"}
        assert [frame.data for frame in frames[1:]] == [frame.data for frame in whole]


async def test_a_stream_belongs_to_its_session_and_shows_no_turn_of_another(served: Service) -> None:
    first, second = (await served.send("look", sessionId="a")).json(), (await served.send("look", sessionId="b")).json()

    assert (await served.http.get(f"/agents/clerk/sessions/a/stream?turn={second['turnId']}")).status_code == 404
    assert (await served.http.get(f"/agents/other/sessions/a/stream?turn={first['turnId']}")).status_code == 404
    assert (await served.http.get("/agents/clerk/sessions/c/stream")).status_code == 404
    assert (await served.http.get("/agents/clerk/sessions/a/stream?turn=t_none")).status_code == 404


async def test_text_that_looks_like_the_protocol_stays_text_for_every_way_of_splitting_lines(served: Service) -> None:
    turn = (await served.send("odd")).json()
    answer = await served.http.get(f"/agents/clerk/sessions/{turn['sessionId']}/stream")

    assert answer.content.isascii()
    events = [orjson.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
    assert events == turn["events"]
    assert [event["type"] for event in events].count("done") == 1
    assert any("line\u2028sep\u0085nel\x0bvt" in event.get("text", "") for event in events)
    assert b"retry: 1\n" not in answer.content


async def test_an_idle_stream_gets_comments_without_an_id(api: Service) -> None:
    turn = await api.start("look")
    raw = b""
    async with api.http.stream("GET", stream_of(turn)) as answer:
        async for chunk in answer.aiter_raw():
            raw += chunk
            if raw.count(b"\n: \n\n") >= 3:
                break

    assert raw.startswith(b"retry: 1000\n\n")
    assert raw.count(b"id: ") == 1
    assert raw.count(b"event: session\n") == 1


async def test_a_listener_that_leaves_is_forgotten_soon_and_the_turn_goes_on(served: Service) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", httpx2.URL(served.url).port)
    body = b'{"message":"slow","sessionId":"s"}'
    head = b"POST /agents/clerk/messages/stream HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    writer.write(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    await reader.readuntil(b"event: session")
    await served.audiences(1)

    writer.transport.abort()

    await served.audiences(0, within_s=2 * served.settings.heartbeat_s + 1)
    session = await served.runtime.session(served.tenant, "clerk", "s")
    assert session.turn_id is not None
    assert await served.settled(session.turn_id) == "done"
    assert (await served.runtime.turn(served.tenant, session.turn_id)).text == "Slow and done."


async def test_a_client_that_gave_up_waiting_costs_nothing_and_its_turn_goes_on(served: Service) -> None:
    waiting = asyncio.create_task(served.send("slow", sessionId="s"))
    await served.audiences(1)
    waiting.cancel()
    await served.audiences(0, within_s=1)
    session = await served.runtime.session(served.tenant, "clerk", "s")
    assert session.turn_id is not None
    assert await served.settled(session.turn_id) == "done"


async def test_two_hundred_open_streams_share_a_few_connections_to_redis(api: Service, redis_url: str) -> None:
    turns = [await api.start("look") for _ in range(20)]
    with redis.Redis.from_url(api.redis_url) as client:
        async with api.http.stream("GET", stream_of(turns[0])) as one:
            await anext(frames_of(one))
            limits = httpx2.Limits(max_connections=None)
            async with httpx2.AsyncClient(base_url=api.url, limits=limits, trust_env=False) as http:
                requests = [http.build_request("GET", stream_of(turns[n % 20])) for n in range(200)]
                streams = await asyncio.gather(*(http.send(request, stream=True) for request in requests))
                firsts = await asyncio.gather(*(anext(frames_of(stream)) for stream in streams))
                during = len(client.client_list())
                await asyncio.gather(*(stream.aclose() for stream in streams))

    assert {frame.event for frame in firsts} == {"session"}
    assert during <= 8  # at most 4 pipelines, the news, and this test's own; not one for each stream


async def test_a_client_that_reads_slowly_holds_up_nobody_and_loses_nothing(served: Service) -> None:
    turn = await served.start("slow")
    async with served.http.stream("GET", stream_of(turn)) as lazy:
        assert await served.settled(turn["turnId"]) == "done"
        frames = [frame async for frame in frames_of(lazy)]

    assert events_of(frames) == (await served.http.get(f"/turns/{turn['turnId']}")).json()["events"]


async def test_a_stream_of_an_erased_turn_ends_without_done(api: Service) -> None:
    turn = await api.start("look", sessionId="s")
    async with api.http.stream("GET", stream_of(turn)) as answer:
        frames = frames_of(answer)
        assert (await anext(frames)).event == "session"
        assert (await api.http.delete("/agents/clerk/sessions/s")).status_code == 204
        assert [frame.event async for frame in frames][-1:] in ([], ["done"])


async def test_events_that_the_store_lost_are_told_by_a_reset_on_resume_and_on_an_open_stream(
    served: Service,
) -> None:
    turn = (await served.send("pay", sessionId="s")).json()
    whole = await served.read("/agents/clerk/sessions/s/stream", most=len(turn["events"]))
    last = Cursor.parse(whole[-1].id)
    assert last is not None
    key = Keys(0).events(turn_ref(served.tenant, turn["turnId"]))

    async with served.http.stream("GET", "/agents/clerk/sessions/s/stream") as answer:
        frames = frames_of(answer)
        assert [await anext(frames) for _ in whole] == whole
        with redis.Redis.from_url(served.redis_url) as client:
            client.xdel(key, f"{last.n}-0")
            client.client_kill_filter(_type="pubsub")
        again = [await anext(frames) for _ in whole]

    assert [frame.event for frame in again] == ["stream:reset", *(frame.event for frame in whole[:-1])]
    resumed = await served.read("/agents/clerk/sessions/s/stream", whole[-1].id, most=2)
    assert [frame.event for frame in resumed] == ["stream:reset", "session"]
