"""The server's own life: where it binds, how it stops, what it says about itself."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
import redis

from api.app import create_app
from api.serve import serve
from engine.settings import Settings
from engine.store.keys import PARTITIONS
from protocol.errors import ConfigurationError, OperatorError
from tests.api.service import Service, frames_of

SERVER = """
import asyncio, sys
from api.app import create_app
from api.serve import serve
from engine.runtime import open_runtime
from engine.settings import Settings

async def main() -> None:
    settings = Settings()
    runtime = await open_runtime(settings, redis_url=sys.argv[1])
    await serve(create_app(runtime, settings), "127.0.0.1", 0, on_ready=lambda url: print(url, flush=True))
    await runtime.aclose()
    print("closed", flush=True)

asyncio.run(main())
"""


@asynccontextmanager
async def server_process(redis_url: str, settings: Settings) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        SERVER,
        redis_url,
        stdout=asyncio.subprocess.PIPE,
        env={"LOOPENGINE_AGENTS_DIR": str(settings.agents_dir)},
    )
    assert process.stdout is not None
    try:
        yield process, (await process.stdout.readline()).decode().strip()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
async def test_a_stop_signal_says_goodbye_to_open_streams_and_ends_the_process_soon(
    redis_url: str, settings: Settings, sig: signal.Signals
) -> None:
    async with server_process(redis_url, settings) as (process, url), httpx2.AsyncClient(base_url=url) as http:
        headers = {"prefer": "respond-async"}
        turn = (await http.post("/agents/clerk/messages", json={"message": "a"}, headers=headers)).json()
        async with http.stream("GET", f"{turn['statusUrl']}/stream") as answer:
            raw = answer.aiter_raw()
            assert await anext(raw)
            before = time.monotonic()
            process.send_signal(sig)
            rest = b"".join([chunk async for chunk in raw])
        code = await process.wait()
        took_s = time.monotonic() - before
        assert process.stdout is not None
        assert await process.stdout.read() == b"closed\n"

    assert rest.endswith(b": the server stops: reconnect\n\n")
    assert code == 0
    assert took_s < 2


async def test_a_waiting_request_is_answered_when_the_server_stops_and_its_turn_goes_on(served: Service) -> None:
    waiting = asyncio.create_task(served.send("slow", headers={"prefer": "wait=30"}))
    await served.audiences(1)
    served.app.state.context.farewell.say()
    answer = await waiting

    assert (answer.status_code, answer.json()["type"]) == (202, "running")
    assert await served.settled(answer.json()["turnId"]) == "done"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1", "example.com"])
async def test_an_address_that_others_can_reach_is_refused_while_nobody_authenticates(api: Service, host: str) -> None:
    with pytest.raises(ConfigurationError, match="LOOPENGINE_HOST"):
        await serve(api.app, host, 0)


async def test_an_address_that_is_taken_is_told(api: Service) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OperatorError, match="choose another port"):
            await serve(api.app, "127.0.0.1", taken.getsockname()[1])


async def test_an_open_server_answers_under_any_name(api: Service) -> None:
    settings = api.settings.model_copy(update={"host": "0.0.0.0"})
    app = create_app(api.runtime, settings)
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    server = asyncio.create_task(serve(app, "0.0.0.0", 0, on_ready=ready.set_result, stop=stop, open_to_all=True))
    port = httpx2.URL(await ready).port
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
        assert (await http.get("/healthz", headers={"host": "agents.example"})).status_code == 200
    stop.set()
    await server


async def test_readiness_tells_whether_workers_are_there(served: Service) -> None:
    assert (await served.http.get("/readyz")).json() == {"status": "ready", "workersAlive": True}


async def test_readiness_follows_the_store_and_health_does_not(api: Service) -> None:
    assert (await api.http.get("/readyz")).json() == {"status": "ready", "workersAlive": False}
    with redis.Redis.from_url(api.redis_url) as client:
        client.set(PARTITIONS, 7)
    answer = await api.http.get("/readyz")

    assert (answer.status_code, "7 partition" in answer.json()["detail"]) == (503, True)
    assert (await api.http.get("/healthz")).json() == {"status": "ok"}


async def test_the_documentation_names_every_route_with_bodies_answers_and_problems(api: Service) -> None:
    document = (await api.http.get("/openapi.json")).json()

    assert len(document["paths"]) == 17
    send = document["paths"]["/agents/{agent}/messages"]["post"]
    assert "message" in send["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert {"200", "202", "400", "404", "409", "413", "415", "422", "429", "503"} <= send["responses"].keys()
    assert {parameter["name"] for parameter in send["parameters"]} == {"agent", "Prefer", "Idempotency-Key"}
    assert (await api.http.get("/docs")).status_code == 200


async def test_answers_are_neither_stored_nor_sniffed(api: Service) -> None:
    turn = await api.start("look")
    async with api.http.stream("GET", f"{turn['statusUrl']}/stream") as stream:
        await anext(frames_of(stream))
    for answer in (await api.http.get("/agents"), await api.http.get("/none"), stream):
        assert (answer.headers["cache-control"], answer.headers["x-content-type-options"]) == ("no-store", "nosniff")
        assert "access-control-allow-origin" not in answer.headers
