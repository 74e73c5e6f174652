"""The settle script: one decision wins, and whoever repeats it learns the same."""

from __future__ import annotations

import asyncio

from tests.store.desk import ITEM, PARK_FOR_AN_HOUR, Desk


async def test_a_decision_is_stored_put_on_record_and_the_turn_queued(desk: Desk) -> None:
    await desk.parked()
    before = desk.everything()
    found = await desk.settle()
    assert (found.answer, found.decision, found.n_events) == ("APPLIED", {"what": "approve"}, 2)
    assert desk.state() == "queued"
    assert [desk.field(name) for name in ("item", "card", "digest")] == [None, None, None]
    assert desk.field(f"d:{ITEM}") == 'approve\n{"what":"approve"}'
    assert await desk.store.log("acme", desk.session()) == [{"t": "x"}, {"t": "x"}]
    assert await desk.store.open_items("acme") == []
    assert desk.changed_keys(before) == {"t:t_1", "s:s:log", "ready", "ready:acme", "pend:acme"}
    assert (await desk.claim(token="token-2-of-w-000")).turn_id == "t_1"


async def test_a_decision_without_a_digest_is_one_on_whatever_was_shown(desk: Desk) -> None:
    await desk.parked()
    assert (await desk.settle(digest="")).answer == "APPLIED"


async def test_the_same_decision_again_is_the_same_and_changes_nothing(desk: Desk) -> None:
    await desk.parked()
    first = await desk.settle()
    before = desk.everything()
    again = await desk.settle()
    assert (again.answer, again.decision, again.n_events) == ("SAME", first.decision, first.n_events)
    assert desk.everything() == before


async def test_another_decision_is_told_which_one_won_and_changes_nothing(desk: Desk) -> None:
    await desk.parked()
    first = await desk.settle()
    before = desk.everything()
    other = await desk.settle(fingerprint="deny")
    assert (other.answer, other.decision) == ("CONFLICT", first.decision)
    assert desk.everything() == before


async def test_the_first_answer_stands_after_the_turn_has_ended(desk: Desk) -> None:
    await desk.parked()
    await desk.settle()
    await desk.force()
    assert ((await desk.settle()).answer, (await desk.settle(fingerprint="deny")).answer) == ("SAME", "CONFLICT")


async def test_a_decision_on_other_arguments_is_shown_the_digest_and_changes_nothing(desk: Desk) -> None:
    await desk.parked()
    before = desk.everything()
    found = await desk.settle(digest="e" * 32)
    assert (found.answer, found.detail) == ("DIGEST", "d" * 32)
    assert desk.everything() == before


async def test_a_decision_after_the_end_of_its_time_changes_nothing(desk: Desk) -> None:
    await desk.expired()
    before = desk.everything()
    assert (await desk.settle()).answer == "EXPIRED"
    assert desk.everything() == before


async def test_a_decision_in_time_takes_the_expiry_away(desk: Desk) -> None:
    await desk.parked(PARK_FOR_AN_HOUR)
    assert (await desk.settle()).answer == "APPLIED"
    assert (await desk.claim(token="token-2-of-w-000")).turn_id == "t_1"
    assert (desk.field(f"d:{ITEM}") or "").startswith("approve\n")


async def test_two_decisions_at_once_have_one_winner(desk: Desk) -> None:
    await desk.parked()
    found = await asyncio.gather(desk.settle(), desk.settle(fingerprint="deny"))
    assert sorted(one.answer for one in found) == ["APPLIED", "CONFLICT"]
    assert found[0].decision == found[1].decision
