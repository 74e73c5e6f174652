"""Opening a deployment's store: its number of partitions is fixed at first start."""

from __future__ import annotations

import pytest

from engine.store.connection import SHA, Connection, client
from engine.store.store import Store
from protocol.errors import StoreUnsuitable
from tests.store.desk import Desk, open_desk


async def test_another_number_of_partitions_is_refused_and_changes_nothing(redis_url: str) -> None:
    async with open_desk(redis_url, 3) as desk:
        await desk.accept()
        before = desk.everything()
        connection = Connection(client(redis_url))
        with pytest.raises(StoreUnsuitable, match="LOOPENGINE_PARTITIONS=3"):
            await Store(connection, 1, 60).open()
        await connection.aclose()
        assert desk.everything() == before


async def test_the_same_number_opens_again(redis_url: str) -> None:
    for _ in range(2):
        async with open_desk(redis_url, 3):
            pass


async def test_opening_loads_every_script(one: Desk) -> None:
    assert all(one.raw.script_exists(*SHA.values()))


async def test_each_tenant_lives_in_one_partition(redis_url: str) -> None:
    async with open_desk(redis_url, 3) as desk:
        tenants = ("acme", "bolt", "core", "dust")
        for tenant in tenants:
            await desk.accept(tenant=tenant, key="k")
        assert len({desk.keys(tenant) for tenant in tenants}) > 1
        for tenant in tenants:
            own = [key for key in desk.everything() if desk.ref("", tenant)[:-1] in key]
            assert own
            assert all(key.startswith(desk.keys(tenant).prefix) for key in own)


async def test_no_client_text_becomes_key_text(one: Desk) -> None:
    await one.accept("t_1", session="}{ev:il\n*", tenant="acme", key="}{ secret")
    assert not [key for key in one.everything() if "il" in key or "secret" in key or "acme" in key]
