"""The one way to Redis: batches, scripts that were forgotten, servers that go away, full ones, and callers that do."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.exceptions import ResponseError

from engine.store.connection import Connection, client
from loopengine.embedded import EmbeddedStore, ensure_embedded
from protocol.errors import StoreUnavailable
from tests.processes import kill
from tests.store.desk import Desk


@pytest.fixture
async def connection(redis_url: str) -> AsyncIterator[Connection]:
    connection = Connection(client(redis_url), patience_s=5.0)
    yield connection
    await connection.aclose()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedStore]:
    """A server of the test's own, to kill."""
    server = ensure_embedded(tmp_path / "server", fsync="always")
    yield server
    server.stop()


async def test_the_commands_of_one_tick_leave_in_one_pipeline(redis_url: str, connection: Connection) -> None:
    await connection.command("PING")
    with redis.Redis.from_url(redis_url) as raw:
        before = _reads(raw)
        replies = await asyncio.gather(*(connection.command("INCR", "n") for _ in range(50)))
        assert replies == list(range(1, 51))
        assert _reads(raw) - before == 2  # the pipeline, and the question


def _reads(raw: Any) -> int:
    return int(raw.info("stats")["total_reads_processed"])


async def test_each_caller_gets_its_own_reply_and_its_own_error(connection: Connection) -> None:
    await connection.command("SET", "text", "a")
    found = await asyncio.gather(
        connection.command("GET", "text"),
        connection.command("INCR", "text"),
        connection.command("EXISTS", "text"),
        return_exceptions=True,
    )
    assert (found[0], found[2]) == (b"a", 1)
    assert isinstance(found[1], ResponseError)


async def test_scripts_that_redis_forgot_are_loaded_again(one: Desk) -> None:
    one.raw.script_flush()
    accepted, ping = await asyncio.gather(one.accept(), one.store.connection.command("PING"))
    assert (accepted.answer, ping) == ("NEW", b"PONG")


async def test_a_command_that_cannot_be_sent_fails_alone(connection: Connection) -> None:
    found = await asyncio.gather(
        connection.command("SET", "a", 1),
        connection.command("SET", "b", "\ud800"),
        connection.command("SET", "c", None),
        connection.command("GET", "a"),
        return_exceptions=True,
    )
    assert (found[0], found[3]) == (b"OK", b"1")
    assert isinstance(found[1], UnicodeEncodeError)
    assert isinstance(found[2], TypeError)
    assert await connection.command("PING") == b"PONG"


async def test_commands_wait_for_a_server_that_is_started_again(server: EmbeddedStore) -> None:
    connection = Connection(client(server.url), patience_s=20.0)
    await connection.command("SET", "kept", "yes")
    kill(server.pid)
    waiting = [asyncio.create_task(connection.command("GET", "kept")) for _ in range(10)]
    await asyncio.wait(waiting, timeout=0.05)
    assert not any(task.done() for task in waiting)
    await asyncio.to_thread(server.revive)
    assert await asyncio.gather(*waiting) == [b"yes"] * 10
    await connection.aclose()


async def test_a_command_whose_patience_is_over_says_that_redis_is_not_there(server: EmbeddedStore) -> None:
    connection = Connection(client(server.url), patience_s=0.1)
    await connection.command("PING")
    kill(server.pid)
    found = await asyncio.gather(*(connection.command("PING") for _ in range(5)), return_exceptions=True)
    assert [type(error) for error in found] == [StoreUnavailable] * 5
    await asyncio.to_thread(server.revive)
    assert await connection.command("PING") == b"PONG"
    await connection.aclose()


async def test_a_redis_that_is_there_but_does_not_answer_is_not_waited_for_any_longer(server: EmbeddedStore) -> None:
    connection = Connection(client(server.url), patience_s=0.1)
    assert await connection.command("PING") == b"PONG"
    os.kill(server.pid, signal.SIGSTOP)
    try:
        with pytest.raises(StoreUnavailable, match="no reply in time"):
            await connection.command("SET", "late", "yes")
    finally:
        os.kill(server.pid, signal.SIGCONT)
    connection.patience_s = 10.0
    assert (
        await connection.command("GET", "late") == b"yes"
    )  # it was written all the same, and replies keep their order
    await connection.aclose()


async def test_a_full_redis_is_unavailable_and_nothing_of_a_script_is_written(one: Desk) -> None:
    one.store.connection.patience_s = 0.0
    before = one.everything()
    try:
        one.raw.config_set("maxmemory", 1)
        with pytest.raises(StoreUnavailable, match="maxmemory"):
            await one.accept()
    finally:
        one.raw.config_set("maxmemory", 0)
    assert one.everything() == before
    assert (await one.accept()).answer == "NEW"


async def test_a_caller_that_gives_up_takes_nobody_with_it(connection: Connection) -> None:
    tasks = [asyncio.create_task(connection.command("INCR", "n")) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(found[1], asyncio.CancelledError)
    assert found[0] == 1
    assert found[2] in (2, 3)


@pytest.mark.parametrize("callers", [1, 40])
async def test_closing_ends_whoever_still_waits_for_an_answer(server: EmbeddedStore, callers: int) -> None:
    connection = Connection(client(server.url), patience_s=None)
    kill(server.pid)
    waiting = []
    for _ in range(callers):
        waiting.append(asyncio.create_task(connection.command("PING")))
        await asyncio.sleep(0)  # a tick each: some are on their way, some in a pause, some not yet sent
        await asyncio.sleep(0)
    await connection.aclose()
    found = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 5.0)
    assert [type(answer) for answer in found] == [asyncio.CancelledError] * callers
