"""Following turns: every reader sees the same sequence, whatever of the news it missed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from engine.store import tail as tail_module
from engine.store.connection import client
from engine.store.store import Claim, Entry
from engine.store.tail import Tail
from protocol.errors import TurnGone
from tests.processes import eventually_async
from tests.store.desk import DONE, Desk

LAST = b'{"type":"done","text":"bye"}'


@pytest.fixture
async def tail(one: Desk, redis_url: str) -> AsyncIterator[Tail]:
    tail = Tail(one.store, client(redis_url, timeout_s=None))
    yield tail
    await tail.aclose()


async def read(tail: Tail, desk: Desk, after: int = 0, idle_s: float = 10.0) -> list[tuple[int, bytes]]:
    """All entries behind ``after``, as one reader gets them."""
    async with aclosing(tail.follow("acme", desk.ref(), after, idle_s=idle_s)) as entries:
        return [(entry.n, entry.event) async for entry in entries if entry]


async def write(desk: Desk, claim: Claim, first: int, last: int) -> None:
    """Entries ``first``..``last``, one commit each."""
    for n in range(first, last + 1):
        event = b'{"type":"e","n":%d}' % n
        assert await desk.commit(claim, events=[event], records=[], more_events=n - 2, op=f"op-{n}") == "OK"


async def finish(desk: Desk, claim: Claim, n: int) -> None:
    assert await desk.commit(claim, DONE, events=[LAST], records=[], more_events=n - 2, op="done") == "OK"


def slip_in(desk: Desk, n: int) -> None:
    """An entry that is in the stream, and whose news reached nobody."""
    desk.raw.xadd(desk.keys().events(desk.ref()), {"e": b'12345678{"type":"e","n":%d}' % n}, id=f"{n}-0")


def in_the_stream(desk: Desk) -> list[tuple[int, bytes]]:
    raw = desk.raw.xrange(desk.keys().events(desk.ref()))
    return [(int(entry_id.split(b"-")[0]), fields[b"e"][8:]) for entry_id, fields in raw]


async def heard(tail: Tail, desk: Desk) -> None:
    """Wait until readers of the turn are registered and the subscription stands."""

    async def listening() -> bool:
        return bool(desk.raw.pubsub_numsub(desk.keys().news)[0][1]) and desk.ref() in tail._ears

    await eventually_async(listening)


async def test_readers_see_the_identical_sequence_wherever_they_came_in(one: Desk, tail: Tail) -> None:
    claim = await one.running()
    readers = [asyncio.create_task(read(tail, one))]
    await heard(tail, one)
    await write(one, claim, 2, 4)
    readers.append(asyncio.create_task(read(tail, one)))
    await write(one, claim, 5, 20)
    await finish(one, claim, 21)
    readers.append(asyncio.create_task(read(tail, one)))
    assert [await reader for reader in readers] == [in_the_stream(one)] * 3
    assert [n for n, _ in in_the_stream(one)] == list(range(1, 22))


async def test_a_reader_goes_on_from_where_it_was(one: Desk, tail: Tail) -> None:
    claim = await one.running()
    await write(one, claim, 2, 6)
    reader = asyncio.create_task(read(tail, one, after=4))
    await heard(tail, one)
    await finish(one, claim, 7)
    assert [n for n, _ in await reader] == [5, 6, 7]


async def test_a_gap_in_the_news_is_filled_from_the_stream(one: Desk, tail: Tail) -> None:
    claim = await one.running()
    reader = asyncio.create_task(read(tail, one))
    await heard(tail, one)
    slip_in(one, 2)
    slip_in(one, 3)
    await write(one, claim, 4, 4)
    await finish(one, claim, 5)
    assert await reader == in_the_stream(one)


async def test_news_lost_with_the_subscription_are_read_from_the_stream(one: Desk, tail: Tail) -> None:
    claim = await one.running()
    reader = asyncio.create_task(read(tail, one))
    await heard(tail, one)
    one.raw.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
    slip_in(one, 2)
    one.raw.xadd(one.keys().events(one.ref()), {"e": b"12345678" + LAST}, id="3-0")
    assert await asyncio.wait_for(reader, 10) == in_the_stream(one)
    assert claim.n_events == 1


async def test_silence_is_not_trusted_for_long(one: Desk, tail: Tail, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_module, "HEAL_S", 0.05)
    await one.running()
    reader = asyncio.create_task(read(tail, one))
    await heard(tail, one)
    one.raw.xadd(one.keys().events(one.ref()), {"e": b"12345678" + LAST}, id="2-0")
    assert await asyncio.wait_for(reader, 10) == in_the_stream(one)


async def test_a_reader_slower_than_its_buffer_misses_nothing(
    one: Desk, tail: Tail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_module, "_BUFFER", 4)
    claim = await one.running()
    async with aclosing(tail.follow("acme", one.ref())) as entries:
        first = await anext(entries)
        await write(one, claim, 2, 40)
        await finish(one, claim, 41)
        [ear] = tail._ears[one.ref()]

        async def overflowed() -> bool:
            return ear.overflowed

        await eventually_async(overflowed)
        seen = [first, *[entry async for entry in entries]]
    assert [(entry.n, entry.event) for entry in seen if entry] == in_the_stream(one)


async def test_a_long_turn_is_read_page_by_page(one: Desk, tail: Tail, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_module, "_PAGE", 3)
    claim = await one.running()
    await write(one, claim, 2, 10)
    await finish(one, claim, 11)
    assert await read(tail, one) == in_the_stream(one)


async def test_any_number_of_readers_shares_a_constant_number_of_connections(one: Desk, tail: Tail) -> None:
    claim = await one.running()
    before = len(one.raw.client_list())
    readers = [asyncio.create_task(read(tail, one)) for _ in range(200)]
    await heard(tail, one)
    await write(one, claim, 2, 10)
    in_use = len(one.raw.client_list())
    await finish(one, claim, 11)
    found = await asyncio.gather(*readers)
    assert found == [in_the_stream(one)] * 200
    assert in_use - before <= 1  # the subscription


async def test_a_reader_of_a_turn_that_is_not_there_is_told(one: Desk, tail: Tail) -> None:
    await one.finished()
    await one.store.erase("acme", one.session())
    with pytest.raises(TurnGone):
        await read(tail, one)
    with pytest.raises(TurnGone):
        await read(tail, one, after=1)


async def test_a_reader_of_a_turn_that_is_erased_meanwhile_is_told(
    one: Desk, tail: Tail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_module, "HEAL_S", 0.05)
    await one.running()
    reader = asyncio.create_task(read(tail, one))
    await heard(tail, one)
    one.raw.delete(one.keys().turn(one.ref()), one.keys().events(one.ref()))
    with pytest.raises(TurnGone):
        await asyncio.wait_for(reader, 10)


async def test_a_pause_is_a_none_and_the_reader_goes_on(one: Desk, tail: Tail) -> None:
    claim = await one.running()
    async with aclosing(tail.follow("acme", one.ref(), idle_s=0.01)) as entries:
        assert _n(await anext(entries)) == 1
        assert _n(await anext(entries)) is None
        assert _n(await anext(entries)) is None
        await finish(one, claim, 2)
        rest: list[Any] = [_n(entry) async for entry in entries]
    assert [n for n in rest if n] == [2]


def _n(entry: Entry | None) -> int | None:
    return entry.n if entry else None


async def test_a_reader_that_leaves_is_forgotten(one: Desk, tail: Tail) -> None:
    await one.running()
    async with aclosing(tail.follow("acme", one.ref())) as entries:
        await anext(entries)
        assert tail._ears
    assert not tail._ears


async def test_a_reader_that_missed_the_end_learns_at_once_that_its_turn_was_erased(
    one: Desk, tail: Tail, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = await one.running()
    hand_out = tail._hand_out
    monkeypatch.setattr(tail, "_hand_out", lambda data: hand_out(data) if data.endswith(b"\n0") else None)
    reading = asyncio.create_task(read(tail, one))
    await heard(tail, one)
    await one.commit(claim, DONE)

    assert await one.store.erase("acme", one.session()) == "OK"

    with pytest.raises(TurnGone):
        async with asyncio.timeout(tail_module.HEAL_S / 2):
            await reading
