"""The claim script: which turn a worker gets, and what it then holds in its hands."""

from __future__ import annotations

import pytest

from engine.store.store import Claim, Ending
from tests.store.desk import DONE, ITEM, RECORD, Desk


async def test_a_worker_that_never_beat_gets_nothing(desk: Desk) -> None:
    await desk.accept()
    before = desk.everything()
    assert await desk.ask() == "UNKNOWN_WORKER"
    assert desk.everything() == before


async def test_nothing_due_is_none(desk: Desk) -> None:
    desk.beat()
    before = desk.everything()
    assert await desk.ask() == "NONE"
    assert desk.everything() == before


async def test_a_claimed_turn_is_running_under_its_token_and_its_worker(desk: Desk) -> None:
    await desk.accept()
    claim = await desk.claim("w", "token-of-w-00000")
    assert (claim.ref, claim.session, claim.turn_id) == (desk.ref(), desk.session(), "t_1")
    assert (claim.n_events, claim.n_log, claim.log, claim.deaths) == (1, 0, [], 0)
    assert (desk.state(), desk.field("tok"), desk.field("own")) == ("running", "token-of-w-00000", "w")
    keys = desk.keys()
    assert desk.raw.zrange(keys.running, 0, -1) == [f"w|{desk.ref()}".encode()]
    assert desk.raw.exists(keys.ready) == 0
    assert desk.raw.smembers(f"{keys.prefix}busy:{desk.ref().split('.')[0]}") == {desk.ref().encode()}


async def test_a_claim_brings_the_whole_log_of_the_session(desk: Desk) -> None:
    claim = await desk.running()
    await desk.commit(claim, DONE, records=[b'{"t":"a"}', b'{"t":"b"}'])
    await desk.accept("t_2")
    again = await desk.claim()
    assert (again.turn_id, again.n_log, again.log) == ("t_2", 2, [{"t": "a"}, {"t": "b"}])


async def test_the_same_token_again_gets_the_same_turn_and_changes_nothing(desk: Desk) -> None:
    await desk.accept("t_1")
    await desk.accept("t_2", session="other")
    claim = await desk.claim()
    before = desk.everything()
    assert await desk.ask() == claim
    assert desk.everything() == before


async def test_a_token_whose_turn_was_taken_away_gets_another_one(desk: Desk) -> None:
    await desk.running()
    await desk.force()
    await desk.accept("t_2", session="other")
    claim = await desk.ask()
    assert isinstance(claim, Claim)
    assert claim.turn_id == "t_2"


async def test_turns_of_a_tenant_are_taken_in_the_order_they_became_due(desk: Desk) -> None:
    for number in range(3):
        await desk.accept(f"t_{number}", session=f"s{number}")
        line = f"{desk.keys().prefix}ready:{desk.ref().split('.')[0]}"
        desk.raw.zadd(line, {desk.ref(f"t_{number}"): 1000 - number})
    assert [(await desk.claim(token=f"{number:016}")).turn_id for number in range(3)] == ["t_2", "t_1", "t_0"]


async def test_a_turn_that_is_not_due_yet_is_left_alone(desk: Desk) -> None:
    claim = await desk.running()
    await desk.commit(claim, Ending("queue", 3_600_000, "waiting for the provider"))
    assert (desk.state(), desk.field("note")) == ("queued", "waiting for the provider")
    before = desk.everything()
    assert await desk.ask(token="token-2-of-w-000") == "NONE"
    assert desk.everything() == before


async def test_a_claim_takes_the_note_away(desk: Desk) -> None:
    claim = await desk.running()
    await desk.commit(claim, Ending("queue", 0, "given back"))
    await desk.claim(token="token-2-of-w-000")
    assert desk.field("note") is None


async def test_tenants_take_turns_however_many_one_of_them_has(one: Desk) -> None:
    for number in range(6):
        await one.accept(f"t_a{number}", session=f"s{number}")
    for number in range(2):
        await one.accept(f"t_b{number}", session=f"s{number}", tenant="bolt")
    await one.accept("t_c0", tenant="core")
    taken = []
    for number in range(9):
        # Round robin needs claims that are told apart by the clock's milliseconds.
        _next_millisecond(one)
        taken.append((await one.claim(token=f"{number:016}")).fields["tenant"])
    assert sorted(taken[:3]) == ["acme", "bolt", "core"]
    assert sorted(taken[3:5]) == ["acme", "bolt"]
    assert taken[5:] == ["acme"] * 4


def _next_millisecond(desk: Desk) -> None:
    seconds, micros = desk.raw.time()
    while desk.raw.time()[1] // 1000 == micros // 1000 and desk.raw.time()[0] == seconds:
        pass


async def test_a_tenant_at_its_limit_is_passed_over_and_served_again_below_it(one: Desk) -> None:
    await one.accept("t_a1", session="1")
    await one.accept("t_a2", session="2")
    first = await one.claim()
    await one.accept("t_b1", tenant="bolt")
    found = await one.ask(token="token-2-of-w-000", limit=1)
    assert isinstance(found, Claim)
    assert found.turn_id == "t_b1"
    assert await one.ask(token="token-3-of-w-000", limit=1) == "NONE"
    assert one.state("t_a2") == "queued"
    await one.commit(first, DONE)
    found = await one.ask(token="token-4-of-w-000", limit=1)
    assert isinstance(found, Claim)
    assert found.turn_id == "t_a2"


async def test_a_suspect_is_left_to_a_worker_that_has_no_other(one: Desk) -> None:
    await one.running()
    await one.store.release(one.keys(), "w", one.beat())
    await one.accept("t_2", session="other")
    one.beat()
    found = await one.ask(suspects=False)
    assert isinstance(found, Claim)
    assert found.turn_id == "t_2"
    assert await one.ask(token="token-2-of-w-000", suspects=False) == "NONE"
    found = await one.ask(token="token-3-of-w-000", suspects=True)
    assert isinstance(found, Claim)
    assert (found.turn_id, found.deaths) == ("t_1", 1)


async def test_many_suspects_do_not_hide_the_healthy_turn_behind_them(one: Desk) -> None:
    for number in range(40):
        await one.accept(f"t_{number}", session=f"s{number}")
        await one.claim(token=f"{number:016}")
    await one.store.release(one.keys(), "w", one.beat())
    await one.accept("t_healthy", session="other")
    one.beat()
    found = await one.ask(suspects=False)
    assert isinstance(found, Claim)
    assert found.turn_id == "t_healthy"


async def test_an_expired_item_is_closed_by_the_claim(desk: Desk) -> None:
    await desk.expired()
    claim = await desk.claim(token="token-2-of-w-000")
    assert claim.turn_id == "t_1"
    assert desk.state() == "running"
    assert [desk.field(name) for name in ("item", "card", "digest")] == [None, None, None]
    assert (desk.field(f"d:{ITEM}") or "").startswith("expired\n")
    assert await desk.store.open_items("acme") == []
    assert (await desk.settle()).answer == "EXPIRED"


@pytest.mark.parametrize("state", ["none", "waiting", "running", "finished"])
async def test_what_a_forgetful_store_left_in_the_line_is_taken_out_of_it(one: Desk, state: str) -> None:
    if state != "none":
        await getattr(one, state)()
    line = f"{one.keys().prefix}ready:{one.ref().split('.')[0]}"
    one.raw.zadd(line, {one.ref(): 1})
    one.raw.zadd(one.keys().ready, {one.ref().split(".")[0]: 1})
    one.beat("z")
    assert await one.ask("z", "token-of-z-00000") == "NONE"
    assert one.raw.exists(line, one.keys().ready) == 0


async def test_two_workers_never_get_the_same_turn(desk: Desk) -> None:
    await desk.accept()
    desk.beat("a")
    desk.beat("b")
    answers = [await desk.ask("a", "token-of-a-00000"), await desk.ask("b", "token-of-b-00000")]
    assert [isinstance(answer, Claim) for answer in answers] == [True, False]


async def test_the_writer_of_an_event_is_told_from_its_first_eight_bytes(desk: Desk) -> None:
    claim = await desk.running()
    await desk.commit(claim, records=[RECORD])
    assert [entry.writer for entry in await desk.store.entries("acme", desk.ref(), 1)] == ["token-of"]
