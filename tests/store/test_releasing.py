"""The release script: running turns of a worker that is gone, or that lost track of them, go back into the line."""

from __future__ import annotations

from tests.store.desk import DONE, Desk


async def test_the_turns_of_a_dead_worker_are_queued_and_each_counts_a_death(desk: Desk) -> None:
    await desk.running()
    await desk.accept("t_2", session="other")
    await desk.claim(token="token-2-of-w-000")
    counter = desk.beat()
    released = await desk.store.release(desk.keys(), "w", counter)
    assert sorted(released) == [desk.ref("t_1"), desk.ref("t_2")]
    assert [(desk.state(t), desk.field("deaths", t), desk.field("tok", t)) for t in ("t_1", "t_2")] == [
        ("queued", "1", ""), ("queued", "1", ""),
    ]  # fmt: skip
    keys = desk.keys()
    gone = (keys.running, keys.beats, keys.claims, f"{keys.prefix}busy:{desk.ref().split('.')[0]}")
    assert desk.raw.exists(*gone) == 0


async def test_a_worker_whose_counter_moved_is_not_dead(desk: Desk) -> None:
    await desk.running()
    seen = desk.beat()
    desk.beat()
    before = desk.everything()
    assert await desk.store.release(desk.keys(), "w", seen) == []
    assert desk.everything() == before


async def test_a_worker_without_a_counter_is_released_too(desk: Desk) -> None:
    await desk.running()
    desk.raw.hdel(desk.keys().beats, "w")
    assert await desk.store.release(desk.keys(), "w", "") == [desk.ref()]
    assert (desk.state(), desk.field("deaths")) == ("queued", "1")


async def test_a_release_again_releases_nothing_and_changes_nothing(desk: Desk) -> None:
    await desk.running()
    counter = desk.beat()
    await desk.store.release(desk.keys(), "w", counter)
    before = desk.everything()
    assert await desk.store.release(desk.keys(), "w", counter) == []
    assert desk.everything() == before


async def test_a_worker_gives_back_the_turns_it_names_and_keeps_the_others(desk: Desk) -> None:
    await desk.running()
    await desk.accept("t_2", session="other")
    await desk.claim(token="token-2-of-w-000")
    assert await desk.store.release(desk.keys(), "w", "own", deaths=0, own=[desk.ref("t_1")]) == [desk.ref("t_1")]
    assert [(desk.state(t), desk.field("deaths", t)) for t in ("t_1", "t_2")] == [("queued", "0"), ("running", "0")]
    assert desk.raw.hexists(desk.keys().beats, "w")


async def test_a_crashed_task_of_a_living_worker_counts_a_death(desk: Desk) -> None:
    await desk.running()
    await desk.store.release(desk.keys(), "w", "own", deaths=1, own=[desk.ref()])
    assert desk.field("deaths") == "1"


async def test_nobody_releases_what_another_worker_runs(desk: Desk) -> None:
    await desk.running()
    desk.beat("z")
    before = desk.everything()
    assert await desk.store.release(desk.keys(), "z", "own", deaths=0, own=[desk.ref()]) == []
    assert desk.everything() == before
    assert await desk.store.release(desk.keys(), "z", "1") == []
    assert desk.state() == "running"


async def test_names_that_begin_alike_are_different_workers(desk: Desk) -> None:
    await desk.accept("t_1")
    await desk.claim("w", "token-of-w-00000")
    await desk.accept("t_2", session="other")
    await desk.claim("w2", "token-of-w2-0000")
    assert await desk.store.release(desk.keys(), "w", desk.beat("w")) == [desk.ref("t_1")]
    assert desk.state("t_2") == "running"


async def test_deaths_add_up_until_there_is_progress(desk: Desk) -> None:
    await desk.accept()
    for number in range(1, 4):
        claim = await desk.claim(token=f"{number:016}")
        assert claim.deaths == number - 1
        await desk.store.release(desk.keys(), "w", desk.beat())
    assert desk.field("deaths") == "3"


async def test_more_turns_than_one_call_takes_are_all_released(one: Desk) -> None:
    for number in range(230):
        await one.accept(f"t_{number}", session=f"s{number}")
        await one.claim(token=f"{number:016}")
    assert len(await one.store.release(one.keys(), "w", one.beat())) == 230
    assert one.raw.exists(one.keys().running, one.keys().beats) == 0


async def test_an_entry_whose_turn_ended_meanwhile_is_only_removed(one: Desk) -> None:
    claim = await one.running()
    await one.commit(claim, DONE)
    one.raw.zadd(one.keys().running, {f"w|{one.ref()}": 0})  # the leavings of a store that lost a suffix
    assert await one.store.release(one.keys(), "w", one.beat()) == []
    assert (one.state(), one.raw.exists(one.keys().running)) == ("done", 0)
