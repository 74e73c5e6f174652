"""SSE-05: the listener leaves, the turn goes on."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import redis

from tests.api.service import running_api, settings_for
from tests.cases.client import types_of
from tests.cases.ledger import AGENT, says, use
from tests.cases.product import TENANT, Product, case
from tests.processes import eventually, eventually_async

RULES = ["{tool: ledger_add, decision: allow}", "{tool: failing_add, decision: ask}"]
WAYS = ["before the first byte", "in text", "in a tool", "by RST", "while parked"]
LISTENERS = 20
HEARTBEAT_S = 1.0


def slow(key: str, tool: str) -> list[dict[str, object]]:
    text = {"type": "text", "text": "Let me add that."}
    return [
        {"blocks": [text, use(f"toolu_{key}", tool, key=key, secs=0.5)], "stop": "tool_use", "sleep": 0.2},
        says("Added.", sleep=0.2),
    ]


SCRIPTS = {f"^slow {n}$": slow(f"k{n}", "failing_add" if n == 4 else "ledger_add") for n in range(len(WAYS))}
SCRIPTS |= {"^wait$": slow("wait", "ledger_add"), "^park$": slow("park", "failing_add")}


class Listener:
    """A client of bare sockets, which can leave in every way."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def hear(self, text: bytes) -> None:
        """Read until ``text`` has come."""
        heard = b""
        while text not in heard:
            chunk = await asyncio.wait_for(self._reader.read(64), 30)
            assert chunk, heard
            heard += chunk

    def leave(self, *, reset: bool = False) -> None:
        """By FIN, or by RST: what a client's crash, or a lost network, looks like."""
        if reset:
            sock = self._writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


async def listen(base_url: str, method: str, path: str, body: dict[str, str] | None = None) -> Listener:
    url = urlsplit(base_url)
    assert url.hostname
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    data = json.dumps(body).encode() if body is not None else b""
    head = f"{method} {path} HTTP/1.1\r\nhost: {url.netloc}\r\ncontent-type: application/json\r\nprefer: wait=60\r\n"
    writer.write(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
    await writer.drain()
    return Listener(reader, writer)


async def has_session(product: Product, session: str) -> bool:
    answer = await product.client.http.get(f"/agents/{AGENT}/sessions/{session}")
    return answer.status_code == 200


async def test_a_turn_ends_as_if_its_listener_had_stayed(redis_url: str, tmp_path: Path) -> None:
    # 3. "The same with all middlewares of the product on." These are the product's own processes: all are on, always.
    async with case(redis_url, tmp_path, SCRIPTS, rules=RULES) as product:
        # 1. "Start a turn in streaming mode; close the socket (a) before the first byte, (b) in text, (c) in a tool,
        # (d) RST instead of FIN, (e) while parked."
        stream = f"/agents/{AGENT}/messages/stream"
        listeners = [
            await listen(product.client.url, "POST", stream, {"message": f"slow {n}", "sessionId": f"s{n}"})
            for n in range(len(WAYS))
        ]
        await eventually_async(lambda: has_session(product, "s0"))
        listeners[0].leave()
        await listeners[1].hear(b"Let me")
        listeners[1].leave()
        await listeners[2].hear(b"tool:started")
        listeners[2].leave()
        await listeners[3].hear(b"tool:started")
        listeners[3].leave(reset=True)
        await listeners[4].hear(b"approval:pending")
        listeners[4].leave()
        item = await product.client.opened("s4")
        assert (await product.client.decide(item["id"], "allow", by="kim")).status_code in (200, 202)

        # "The turn finishes in all cases; its result is in SHOW;"
        for n in range(len(WAYS)):
            turn_id = (await product.client.show(f"s{n}"))["turnId"]
            turn = await product.client.settled(turn_id, "done")
            assert (turn["text"], turn.get("stopReason")) == ("Added.", None), WAYS[n]
            shown = await product.client.show(f"s{n}")
            assert (shown["state"], shown["messages"][-1]["text"]) == ("idle", "Added.")
            # 2. "Attach again after the end."
            frames = await product.client.tail(f"s{n}")
            assert types_of([json.loads(frame.data) for frame in frames]) == types_of(turn["events"])
            assert (product.ledger.count(f"begin k{n}"), product.ledger.count(f"end k{n}")) == (1, 1)

        # 4. "Blocking `SAY` (wait) with the client gone after 1 s." (When its tool runs: that is in the middle of it.)
        caller = await listen(
            product.client.url, "POST", f"/agents/{AGENT}/messages", {"message": "wait", "sessionId": "w"}
        )
        await asyncio.to_thread(eventually, lambda: product.ledger.count("begin wait"))
        caller.leave()
        turn_id = (await product.client.show("w"))["turnId"]
        # "Only `CANCEL` cancels."
        assert (await product.client.settled(turn_id, "done")).get("stopReason") is None


async def test_nothing_is_left_of_listeners_who_went(redis_url: str, tmp_path: Path) -> None:
    async with case(redis_url, tmp_path, SCRIPTS, rules=RULES) as product:
        parked = (await product.client.say("p", "park", wait_s=60)).json()
        settings = settings_for(
            tmp_path / "agents", tenant=TENANT, environment="test", heartbeat_s=HEARTBEAT_S, redis_url=redis_url
        )
        # One more API, in this process, where its tasks can be counted.
        async with running_api(redis_url, settings) as service:
            async with listening(service.url):
                pass  # its connections to Redis are open now, and it keeps them
            await service.audiences(0)
            before, tasks = connections(redis_url), asyncio.all_tasks()

            async with listening(service.url) as listeners:
                # One subscription serves them all.
                assert connections(redis_url) <= before
                assert len(asyncio.all_tasks() - tasks) >= LISTENERS
                # Half of them leave by FIN, the others by RST: the turn is parked, and nothing is sent that could fail.
                for n, listener in enumerate(listeners):
                    listener.leave(reset=n % 2 == 1)
                # "The API drops its Redis connection and tasks for that client within two heartbeats (count with
                # `CLIENT LIST`)."
                await eventually_async(lambda: dropped(tasks), within_s=2 * HEARTBEAT_S)
                assert connections(redis_url) <= before

        # "the worker is not slowed": it runs the turn on as if nobody had ever listened.
        assert (await product.client.decide(parked["id"], "allow", by="kim", wait_s=60)).status_code == 200


@asynccontextmanager
async def listening(base_url: str) -> AsyncIterator[list[Listener]]:
    """Listeners of the turn that is parked, all of them served."""
    path = f"/agents/{AGENT}/sessions/p/stream"
    listeners = [await listen(base_url, "GET", path) for _ in range(LISTENERS)]
    await asyncio.gather(*(listener.hear(b"approval:pending") for listener in listeners))
    try:
        yield listeners
    finally:
        for listener in listeners:
            listener.leave()


async def dropped(tasks: set[asyncio.Task[Any]]) -> bool:
    """No task is there that was not there before."""
    return not asyncio.all_tasks() - tasks


def connections(redis_url: str) -> int:
    with redis.Redis.from_url(redis_url) as client:
        return len(client.client_list())
