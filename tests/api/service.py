"""A running API and real worker processes for tests, with an agent whose script covers what the tests need."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import orjson
from fastapi import FastAPI

from api.app import create_app
from api.serve import serve
from engine.runtime import Runtime, open_runtime
from engine.settings import Settings
from protocol.sse import Decoder, Frame

AGENT_YML = """
name: clerk
systemPrompt: You are a clerk.
model: {provider: scripted, script: script.yml}
maxTurns: 60
"""

ACTAUTH_YML = """
default_decision: deny
rules:
  - {name: looking-is-free, tool: look, decision: allow}
  - {name: paying-needs-approval, tool: pay, decision: ask}
  - {name: asking-is-free, tool: ask_user, decision: allow}
"""

SCRIPT_YML = """
conversations:
  - match: 'pay twice'
    steps:
      - {text: "First.", calls: [{tool: pay, args: {amount: 1}}]}
      - {text: "Second.", calls: [{tool: pay, args: {amount: 2}}]}
      - {text: "Paid twice."}
  - match: 'pay'
    steps:
      - {text: "Looking.", calls: [{tool: look, args: {what: bill}}]}
      - {text: "Paying.", calls: [{tool: pay, args: {amount: 5}}]}
      - {text: "Paid."}
  - match: 'colour'
    steps:
      - calls: [{tool: ask_user, args: {question: "Which colour?", options: [red, blue]}}]
      - {text: "Thanks."}
  - match: 'slow'
    steps:
      - {text: "One.", sleep: 0.4, calls: [{tool: look, args: {what: one}}]}
      - {text: "Two.", sleep: 0.4, calls: [{tool: look, args: {what: two}}]}
      - {text: "Slow and done.", sleep: 0.4}
  - match: 'odd'
    steps:
      - {text: "x\\n\\nevent: done\\ndata: {}\\n\\nline\\u2028sep\\u0085nel\\u000bvt",
         calls: [{tool: look, args: {what: "id: 9\\nretry: 1\\r\\n\\u0000"}}]}
      - {text: "\\ufeffbom: comment"}
  - steps:
      - {text: "Looking.", calls: [{tool: look, args: {what: it}}, {tool: look, args: {what: that}}]}
      - {text: "Done."}
"""

TOOLS_PY = '''
from loopengine import tool


@tool(read_only=True)
def look(what: str) -> str:
    """Look at something."""
    return f"seen: {what}"


@tool
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"
'''

WORKER = """
import sys
from engine.settings import Settings
from workers.slots import open_slots
from workers.worker import run_worker
sys.exit(run_worker(Settings(), redis_url=sys.argv[1], name=None, open_slots=open_slots))
"""


def write_clerk(agents: Path) -> None:
    folder = agents / "clerk"
    (folder / "tools").mkdir(parents=True)
    (folder / "agent.yml").write_text(AGENT_YML)
    (folder / "actauth.yml").write_text(ACTAUTH_YML)
    (folder / "script.yml").write_text(SCRIPT_YML)
    (folder / "tools" / "desk.py").write_text(TOOLS_PY)


def settings_for(agents: Path, **changed: Any) -> Settings:
    return Settings(_env_file=None).model_copy(update={"agents_dir": agents, **changed})


@dataclass(frozen=True)
class Desk:
    """What tests with a worker share: the store and the agents' folder."""

    redis_url: str
    agents: Path


@dataclass
class Service:
    """One API process's worth of application, on a real port."""

    url: str
    http: httpx2.AsyncClient
    runtime: Runtime
    settings: Settings
    app: FastAPI
    redis_url: str

    @property
    def tenant(self) -> str:
        return self.settings.tenant

    async def send(self, message: str, agent: str = "clerk", **rest: Any) -> httpx2.Response:
        headers = rest.pop("headers", None)
        return await self.http.post(f"/agents/{agent}/messages", json={"message": message, **rest}, headers=headers)

    async def start(self, message: str, **rest: Any) -> dict[str, Any]:
        """Accept a message without waiting for its turn."""
        answer = await self.send(message, headers={"prefer": "respond-async"}, **rest)
        assert answer.status_code == 202, answer.text
        return dict(answer.json())

    async def settled(self, turn_id: str) -> str:
        """The state that the turn came to rest in: done or parked."""
        return (await self.runtime.settled_view(self.tenant, turn_id, 30)).state

    async def workers(self, *, alive: bool) -> None:
        """Wait until the API sees some worker, or none."""
        async with asyncio.timeout(30):
            while await self.runtime.workers_alive() != alive:  # noqa: ASYNC110 - nothing to wait for tells this
                await asyncio.sleep(0.05)

    async def audiences(self, count: int, within_s: float = 5) -> None:
        """Wait until so many streams and waiting requests are open."""
        async with asyncio.timeout(within_s):
            while len(self.app.state.context.farewell) != count:  # noqa: ASYNC110 - nothing to wait for tells this
                await asyncio.sleep(0.01)

    async def read(self, path: str, last_event_id: str | None = None, most: int = 10**6) -> list[Frame]:
        """A stream's events until it ends, at most ``most``."""
        headers = {"last-event-id": last_event_id} if last_event_id is not None else {}
        frames: list[Frame] = []
        async with self.http.stream("GET", path, headers=headers) as answer:
            assert answer.status_code in (200, 204), (await answer.aread()).decode()
            async for new in frames_of(answer):
                frames.append(new)
                if len(frames) >= most:
                    break
        return frames


async def frames_of(answer: httpx2.Response) -> AsyncIterator[Frame]:
    decoder = Decoder()
    async for chunk in answer.aiter_raw():
        for frame in decoder.feed(chunk):
            yield frame


def events_of(frames: list[Frame]) -> list[dict[str, Any]]:
    return [orjson.loads(frame.data) for frame in frames]


@contextlib.asynccontextmanager
async def running_api(redis_url: str, settings: Settings) -> AsyncIterator[Service]:
    runtime = await open_runtime(settings, redis_url=redis_url)
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    app = create_app(runtime, settings)
    server = asyncio.create_task(serve(app, "127.0.0.1", 0, on_ready=ready.set_result, stop=stop))
    try:
        url = await ready
        async with httpx2.AsyncClient(base_url=url, timeout=30, trust_env=False) as http:
            yield Service(url, http, runtime, settings, app, redis_url)
    finally:
        stop.set()
        await server
        await runtime.aclose()


@contextlib.contextmanager
def started_worker(redis_url: str, agents: Path) -> Iterator[None]:
    """A worker process; ended by SIGTERM, as an operator would."""
    command = [sys.executable, "-c", WORKER, redis_url]
    with subprocess.Popen(command, env={"LOOPENGINE_AGENTS_DIR": str(agents)}) as process:
        try:
            yield
        finally:
            process.terminate()


@contextlib.asynccontextmanager
async def running_worker(api: Service) -> AsyncIterator[None]:
    """A worker process of the test's own, from when ``api`` sees it until ``api`` knows that it is gone."""
    with started_worker(api.redis_url, api.settings.agents_dir):
        await api.workers(alive=True)
        yield
    await api.workers(alive=False)
