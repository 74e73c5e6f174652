"""The accept script: a message becomes a turn, once, or nothing happens."""

from __future__ import annotations

from engine.store.store import Acceptance
from tests.store.desk import DONE, EVENT, Desk


async def test_a_message_for_an_idle_session_is_queued_and_its_first_event_written(desk: Desk) -> None:
    found = await desk.accept()
    assert found == Acceptance("NEW", desk.ref(), "queued", "")
    keys, ref, session = desk.keys(), desk.ref(), desk.session()
    fields = await desk.store.turn_fields("acme", ref)
    assert fields.pop("at").isdecimal()
    assert fields == {
        "state": "queued", "session": session, "sid": "s", "tenant": "acme", "agent": "agent", "env": "test",
        "input": '{"message":"hello"}', "tok": "", "deaths": "0",
    }  # fmt: skip
    assert await desk.store.session_fields("acme", session) == {
        "id": "s", "tenant": "acme", "agent": "agent", "active": ref, "last": ref, "base": "0", "cut": "0",
    }  # fmt: skip
    [entry] = await desk.store.entries("acme", ref)
    assert (entry.n, len(entry.writer), entry.event) == (1, 8, EVENT)
    assert await desk.store.turn_refs("acme", session) == [ref]
    assert await desk.store.session_refs("acme", 10) == [session]
    assert desk.raw.zrange(f"{keys.prefix}ready:{ref.split('.')[0]}", 0, -1) == [ref.encode()]


async def test_a_message_for_a_busy_session_waits_behind_its_active_turn(desk: Desk) -> None:
    await desk.accept("t_1")
    found = await desk.accept("t_2")
    assert found == Acceptance("NEW", desk.ref("t_2"), "waiting", desk.ref("t_1"))
    assert desk.raw.lrange(desk.keys().waiting(desk.session()), 0, -1) == [desk.ref("t_2").encode()]
    assert (await desk.store.session_fields("acme", desk.session()))["active"] == desk.ref("t_1")


async def test_messages_wait_in_their_order_and_one_for_the_front_before_them(desk: Desk) -> None:
    for turn in ("t_1", "t_2", "t_3"):
        await desk.accept(turn)
    await desk.accept("t_4", on_busy="front")
    waiting = [ref.decode().split(".")[1] for ref in desk.raw.lrange(desk.keys().waiting(desk.session()), 0, -1)]
    assert waiting == ["t_4", "t_2", "t_3"]


async def test_the_same_turn_again_is_the_same_and_changes_nothing(desk: Desk) -> None:
    await desk.accept()
    before = desk.everything()
    assert await desk.accept() == Acceptance("SAME", desk.ref(), "queued")
    assert desk.everything() == before


async def test_the_same_key_and_body_find_the_first_turn_whatever_became_of_it(desk: Desk) -> None:
    await desk.accept("t_1", key="k")
    claim = await desk.claim()
    await desk.commit(claim, DONE)
    before = desk.everything()
    assert await desk.accept("t_2", session="other", key="k") == Acceptance("SAME", desk.ref("t_1"), "done")
    assert desk.everything() == before


async def test_the_same_key_with_another_body_is_a_conflict_and_changes_nothing(desk: Desk) -> None:
    await desk.accept("t_1", key="k")
    before = desk.everything()
    assert await desk.accept("t_2", key="k", digest="other") == Acceptance("CONFLICT", desk.ref("t_1"))
    assert desk.everything() == before


async def test_a_key_of_one_tenant_says_nothing_about_that_of_another(desk: Desk) -> None:
    await desk.accept("t_1", key="k")
    assert (await desk.accept("t_2", tenant="bolt", key="k", digest="other")).answer == "NEW"


async def test_an_idempotency_key_expires(desk: Desk) -> None:
    await desk.accept(key="k")
    [(_, expires_at)] = [value for key, value in desk.everything().items() if ":idem:" in key]
    now = desk.raw.time()[0]
    assert 50 < expires_at - now <= 61  # EXPIRETIME rounds to the nearest second


async def test_a_busy_session_can_refuse_and_then_nothing_is_kept(desk: Desk) -> None:
    await desk.accept("t_1")
    before = desk.everything()
    assert await desk.accept("t_2", on_busy="reject", key="k") == Acceptance("BUSY", desk.ref("t_1"))
    assert desk.everything() == before


async def test_a_session_takes_only_so_many_waiting_turns(desk: Desk) -> None:
    await desk.accept("t_1")
    await desk.accept("t_2", max_waiting=1)
    before = desk.everything()
    assert await desk.accept("t_3", max_waiting=1) == Acceptance("FULL", desk.ref("t_1"))
    assert await desk.accept("t_4", max_waiting=1, on_busy="front") == Acceptance("FULL", desk.ref("t_1"))
    assert desk.everything() == before


async def test_turns_of_different_sessions_are_active_at_once(desk: Desk) -> None:
    assert (await desk.accept("t_1", session="a")).state == "queued"
    assert (await desk.accept("t_2", session="b")).state == "queued"


async def test_nothing_of_an_accepted_turn_expires(desk: Desk) -> None:
    await desk.accept("t_1")
    await desk.accept("t_2")
    assert {expires_at for _, expires_at in desk.everything().values()} == {-1}
