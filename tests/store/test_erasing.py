"""The erase script: an idle session leaves no key behind."""

from __future__ import annotations

from tests.store.desk import DONE, Desk


async def test_an_erased_session_leaves_no_key_at_all(desk: Desk) -> None:
    before = desk.everything()
    for number in (1, 2):
        await desk.accept(f"t_{number}", key=f"k{number}")
    first = await desk.claim()
    await desk.commit(first, DONE)
    second = await desk.claim(token="token-2-of-w-000")
    await desk.commit(second, DONE)
    assert await desk.store.erase("acme", desk.session()) == "OK"
    desk.raw.delete(desk.keys().beats, desk.keys().claims)  # the worker's, not the session's
    assert desk.everything() == before


async def test_a_busy_session_is_not_erased(desk: Desk) -> None:
    await desk.running()
    await desk.accept("t_2")
    before = desk.everything()
    assert await desk.store.erase("acme", desk.session()) == "BUSY"
    assert desk.everything() == before


async def test_erasing_again_finds_nothing(desk: Desk) -> None:
    await desk.finished()
    await desk.store.erase("acme", desk.session())
    before = desk.everything()
    assert await desk.store.erase("acme", desk.session()) == "GONE"
    assert desk.everything() == before


async def test_other_sessions_of_the_tenant_stay(desk: Desk) -> None:
    await desk.accept("t_9", session="other", key="k9")
    kept = {key for key in desk.everything() if "t_9" in key or desk.session("other") in key or "idem" in key}
    await desk.claim(token="token-9-of-w-000")
    await desk.finished()
    await desk.store.erase("acme", desk.session())
    assert kept <= desk.everything().keys()
    assert await desk.store.session_refs("acme", 10) == [desk.session("other")]


async def test_a_key_that_was_used_again_after_it_had_expired_belongs_to_its_new_turn(desk: Desk) -> None:
    await desk.accept("t_1", key="k")
    await desk.commit(await desk.claim(), DONE)
    [idempotency] = [key for key in desk.everything() if ":idem:" in key]
    desk.raw.delete(idempotency)  # its time was over
    await desk.accept("t_2", session="other", key="k")
    await desk.store.erase("acme", desk.session())
    assert (await desk.accept("t_3", session="other", key="k")).ref == desk.ref("t_2")
