"""Waiting for a turn to settle, while the turns around it move on."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.workers.house import TENANT, House, open_house


@pytest.fixture
async def house(redis_url: str) -> AsyncIterator[House]:
    async with open_house(redis_url) as house:
        yield house


async def test_a_turn_that_becomes_the_active_one_while_that_is_looked_for_is_waited_for_all_the_same(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.say("plain")
    turn = await house.say("plain")
    store = house.runtime.store
    read, reads = store.session_fields, 0

    async def session_fields(tenant: str, session: str) -> dict[str, str]:
        nonlocal reads
        reads += 1
        if reads == 2:  # the turn was seen as waiting, and now it is looked what it waits for
            await house.runtime.cancel(TENANT, "agent", "s")
        return await read(tenant, session)

    assert house.field(turn) == "waiting"
    monkeypatch.setattr(store, "session_fields", session_fields)
    view = await house.runtime.settled_view(TENANT, turn, 0.05)
    assert (view.turn_id, view.state) == (turn, "queued")
    assert reads >= 2
