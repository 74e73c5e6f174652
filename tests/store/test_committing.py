"""The commit script: records and events become durable at once, and the turn goes on as its ending says."""

from __future__ import annotations

import pytest

from engine.store.store import GO, Ending
from tests.store.desk import CARD, DIGEST, DONE, ITEM, PARK, PARK_FOR_AN_HOUR, RETENTION_S, Desk

ENDINGS = {"go": GO, "park": PARK_FOR_AN_HOUR, "queue": Ending("queue", 0, "note"), "done": DONE}


async def test_a_step_is_appended_to_stream_and_log_and_the_turn_runs_on(desk: Desk) -> None:
    claim = await desk.running()
    before = desk.everything()
    events = [b'{"type":"a"}', b'{"type":"b"}']
    assert await desk.commit(claim, events=events, records=[b'{"t":"a"}']) == "OK"
    assert [(e.n, e.writer, e.event) for e in await desk.store.entries("acme", desk.ref(), 1)] == [
        (2, "token-of", events[0]), (3, "token-of", events[1]),
    ]  # fmt: skip
    assert await desk.store.log("acme", desk.session()) == [{"t": "a"}]
    assert desk.changed_keys(before) == {"t:t_1", "t:t_1:ev", "s:s:log"}
    assert desk.state() == "running"


async def test_progress_forgets_deaths(desk: Desk) -> None:
    await desk.running()
    await desk.store.release(desk.keys(), "w", desk.beat())
    claim = await desk.claim(token="token-2-of-w-000")
    assert claim.deaths == 1
    await desk.commit(claim, op="step")
    assert desk.field("deaths") == "0"


async def test_a_parked_turn_shows_its_item_and_holds_no_worker(desk: Desk) -> None:
    claim = await desk.running()
    assert await desk.commit(claim, PARK) == "OK"
    assert (desk.state(), desk.field("tok")) == ("parked", "")
    assert [desk.field(name) for name in ("item", "card", "digest")] == [ITEM, CARD, DIGEST]
    assert await desk.store.open_items("acme") == [ITEM]
    keys = desk.keys()
    assert desk.raw.exists(keys.running, keys.ready, f"{keys.prefix}busy:{desk.ref().split('.')[0]}") == 0


async def test_an_item_that_expires_is_due_then(desk: Desk) -> None:
    claim = await desk.running()
    await desk.commit(claim, PARK_FOR_AN_HOUR)
    seconds, _ = desk.raw.time()
    due_ms = desk.raw.zscore(f"{desk.keys().prefix}ready:{desk.ref().split('.')[0]}", desk.ref())
    assert 3_590_000 < due_ms - seconds * 1000 < 3_602_000


async def test_a_queued_turn_says_why_and_is_due_after_its_delay(desk: Desk) -> None:
    claim = await desk.running()
    assert await desk.commit(claim, Ending("queue", 60_000, "later")) == "OK"
    assert (desk.state(), desk.field("note"), desk.field("tok")) == ("queued", "later", "")
    seconds, _ = desk.raw.time()
    assert 55_000 < desk.raw.zscore(desk.keys().ready, desk.ref().split(".")[0]) - seconds * 1000 < 62_000


async def test_done_frees_the_session_and_only_now_keys_of_the_turn_expire(desk: Desk) -> None:
    claim = await desk.running()
    assert {expires_at for _, expires_at in desk.everything().values()} == {-1}
    assert await desk.commit(claim, DONE) == "OK"
    assert (desk.state(), desk.field("out"), desk.field("input")) == ("done", DONE.body, None)
    assert (await desk.store.session_fields("acme", desk.session()))["active"] == ""
    keys, now = desk.keys(), desk.raw.time()[0]
    expiring = {key: at for key, (_, at) in desk.everything().items() if at != -1}
    assert expiring.keys() == {keys.turn(desk.ref()), keys.events(desk.ref())}
    assert all(RETENTION_S - 10 < at - now <= RETENTION_S + 1 for at in expiring.values())
    assert desk.raw.exists(keys.running, keys.ready) == 0


async def test_done_makes_the_next_waiting_turn_the_active_one(desk: Desk) -> None:
    claim = await desk.running()
    await desk.accept("t_2")
    await desk.accept("t_3")
    assert await desk.commit(claim, DONE) == f"OK {desk.ref('t_2')}"
    assert (desk.state("t_2"), desk.state("t_3")) == ("queued", "waiting")
    assert (await desk.store.session_fields("acme", desk.session()))["active"] == desk.ref("t_2")
    assert (await desk.claim(token="token-2-of-w-000")).turn_id == "t_2"


@pytest.mark.parametrize("ending", ENDINGS)
async def test_the_same_commit_again_answers_the_same_and_changes_nothing(desk: Desk, ending: str) -> None:
    claim = await desk.running()
    await desk.accept("t_2")
    first = await desk.commit(claim, ENDINGS[ending])
    before = desk.everything()
    assert await desk.commit(claim, ENDINGS[ending]) == first
    assert desk.everything() == before
    assert first == (f"OK {desk.ref('t_2')}" if ending == "done" else "OK")


@pytest.mark.parametrize("ending", ["park", "queue", "done"])
async def test_who_gave_the_turn_away_can_write_nothing_more(desk: Desk, ending: str) -> None:
    claim = await desk.running()
    await desk.commit(claim, ENDINGS[ending])
    before = desk.everything()
    refusal = await desk.commit(claim, op="op-2", more_events=1, more_log=1)
    assert refusal == ("DONE" if ending == "done" else "FENCED")
    assert desk.everything() == before


async def test_a_zombie_whose_turn_runs_elsewhere_writes_nothing(desk: Desk) -> None:
    zombie = await desk.running()
    await desk.store.release(desk.keys(), "w", desk.beat())
    await desk.claim("z", "token-of-z-00000")
    before = desk.everything()
    for ending in ENDINGS.values():
        assert await desk.commit(zombie, ending) == "FENCED"
    assert desk.everything() == before


async def test_ending_a_waiting_turn_keeps_the_others_in_their_places(desk: Desk) -> None:
    claim = await desk.running()
    for turn in ("t_2", "t_3", "t_4"):
        await desk.accept(turn)
    assert await desk.force("t_3") == "OK"
    assert desk.state("t_3") == "done"
    assert [claim.ref] == [(await desk.store.session_fields("acme", desk.session()))["active"]]
    waiting = desk.raw.lrange(desk.keys().waiting(desk.session()), 0, -1)
    assert waiting == [desk.ref("t_2").encode(), desk.ref("t_4").encode()]


@pytest.mark.parametrize("state", ["queued", "running", "parked", "expired"])
async def test_a_forced_end_frees_the_session_for_the_next_whatever_the_turn_was_doing(desk: Desk, state: str) -> None:
    await getattr(desk, state)()
    await desk.accept("t_2")
    assert await desk.force() == f"OK {desk.ref('t_2')}"
    assert (desk.state(), desk.state("t_2")) == ("done", "queued")
    assert desk.raw.exists(desk.keys().running) == 0
    assert (await desk.claim(token="token-2-of-w-000")).turn_id == "t_2"
    assert await desk.ask(token="token-3-of-w-000") == "NONE"


@pytest.mark.parametrize("state", ["parked", "expired"])
async def test_a_forced_end_closes_the_open_item_as_superseded(desk: Desk, state: str) -> None:
    await getattr(desk, state)()
    await desk.force()
    assert await desk.store.open_items("acme") == []
    assert (desk.field(f"d:{ITEM}") or "").startswith("superseded\n")
    before = desk.everything()
    found = await desk.settle()
    assert (found.answer, found.detail) == ("CLOSED", "done")
    assert desk.everything() == before


async def test_a_forced_end_that_read_too_early_is_moved(desk: Desk) -> None:
    claim = await desk.running()
    await desk.commit(claim, op="in between")
    before = desk.everything()
    assert await desk.commit(claim, DONE, token="") == "MOVED"
    assert desk.everything() == before


async def test_each_commit_publishes_what_it_appended_with_its_first_number(desk: Desk) -> None:
    claim = await desk.running()
    with desk.raw.pubsub(ignore_subscribe_messages=True) as news:
        news.subscribe(desk.keys().news)
        news.get_message(timeout=5)
        await desk.commit(claim, events=[b'{"type":"a"}', b'{"type":"b"}'])
        await desk.commit(claim, events=[], more_events=2, more_log=1, op="silent")
        await desk.commit(claim, DONE, events=[b'{"type":"done"}'], more_events=2, more_log=2, op="last")
        heard = [news.get_message(timeout=5)["data"] for _ in range(2)]
        assert news.get_message() is None
    ref = desk.ref().encode()
    assert heard == [
        ref + b'\n2\ntoken-of{"type":"a"}\ntoken-of{"type":"b"}',
        ref + b'\n4\ntoken-of{"type":"done"}',
    ]


async def test_a_commit_without_records_touches_no_log(desk: Desk) -> None:
    claim = await desk.running()
    before = desk.everything()
    await desk.commit(claim, records=[])
    assert desk.changed_keys(before) == {"t:t_1", "t:t_1:ev"}
