"""A client of one API process, with the cases' placeholders as methods, and the faults it was shown on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Literal
from urllib.parse import quote

import httpx2

from protocol.sse import Decoder, Frame
from tests.cases.ledger import AGENT

Json = dict[str, Any]
REST_S = 30.0


class Client:
    """``faults`` collects answers that no client may ever see: 500 and stack traces."""

    def __init__(self, url: str, faults: list[str]) -> None:
        self.url = url
        self._faults = faults
        limits = httpx2.Limits(max_connections=None)
        self.http = httpx2.AsyncClient(
            base_url=url, timeout=60, limits=limits, trust_env=False, event_hooks={"response": [self._look]}
        )

    async def _look(self, answer: httpx2.Response) -> None:
        if answer.status_code < 400:
            return
        await answer.aread()
        if answer.status_code in (500, 501, 502) or "Traceback" in answer.text:
            self._faults.append(f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text}")

    async def say(self, session: str | None, text: str, *, wait_s: int | None = 30, **rest: Any) -> httpx2.Response:
        """SAY. Waits for the turn to end or to park; ``wait_s`` 0 only has it accepted, None is the API's default."""
        body = {"message": text, **({"sessionId": session} if session is not None else {}), **rest}
        agent = body.pop("agent", AGENT)
        return await self.http.post(f"/agents/{agent}/messages", json=body, headers=_prefer(wait_s))

    def stream(self, session: str, text: str) -> Any:
        """SAY as a stream: an async context manager that gives the open response."""
        path = f"/agents/{AGENT}/messages/stream"
        return self.http.stream("POST", path, json={"message": text, "sessionId": session})

    async def tail(
        self, session: str, cursor: str | None = None, *, turn: str | None = None, most: int = 10**6
    ) -> list[Frame]:
        """TAIL, until the stream ends or for ``most`` events. Ids stand in the frames."""
        headers = {} if cursor is None else {"last-event-id": cursor}
        params = {} if turn is None else {"turn": turn}
        frames: list[Frame] = []
        path = f"{_session(session)}/stream"
        async with self.http.stream("GET", path, headers=headers, params=params) as answer:
            assert answer.status_code in (200, 204), (await answer.aread()).decode()
            async for frame in frames_of(answer):
                frames.append(frame)
                if len(frames) >= most:
                    break
        return frames

    async def pending(self, session: str | None = None) -> list[Json]:
        """PENDING: open approvals and questions, of one session or of the whole tenant."""
        approvals, questions = await asyncio.gather(self.http.get("/approvals"), self.http.get("/questions"))
        items: list[Json] = approvals.json()["approvals"] + questions.json()["questions"]
        return [item for item in items if session in (None, item["sessionId"])]

    async def decide(
        self, item: str, what: Literal["allow", "deny"], *, wait_s: int | None = 0, **body: Any
    ) -> httpx2.Response:
        """DECIDE. ``by``, ``reason``, ``digest`` go into the body; by default the turn is not waited for."""
        verb = "approve" if what == "allow" else "deny"
        return await self.http.post(f"/approvals/{item}/{verb}", json=body, headers=_prefer(wait_s))

    async def answer(self, item: str, value: Any, *, wait_s: int | None = 0) -> httpx2.Response:
        """ANSWER with text; any other value is sent as the whole body."""
        body = {"answer": value} if isinstance(value, str) else value
        return await self.http.post(f"/questions/{item}/answer", json=body, headers=_prefer(wait_s))

    async def cancel(self, session: str) -> httpx2.Response:
        return await self.http.post(f"{_session(session)}/cancel")

    async def show(self, session: str) -> Json:
        answer = await self.http.get(_session(session))
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def turn(self, turn_id: str) -> Json:
        answer = await self.http.get(f"/turns/{turn_id}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def settled(self, turn_id: str, *states: str, within_s: float = REST_S) -> Json:
        """The turn as soon as its state is one of ``states`` (default: done or parked)."""
        deadline = asyncio.get_running_loop().time() + within_s
        while (turn := await self.turn(turn_id))["state"] not in (states or ("done", "parked")):
            assert asyncio.get_running_loop().time() < deadline, f"not {states} after {within_s} s: {turn}"
            await asyncio.sleep(0.02)
        return turn

    async def opened(self, session: str, within_s: float = REST_S) -> Json:
        """The session's open item, as soon as there is one."""
        deadline = asyncio.get_running_loop().time() + within_s
        while (item := (await self.show(session)).get("item")) is None:
            assert asyncio.get_running_loop().time() < deadline, f"no open item of {session} after {within_s} s"
            await asyncio.sleep(0.02)
        return dict(item)

    async def aclose(self) -> None:
        await self.http.aclose()


async def frames_of(answer: httpx2.Response) -> AsyncIterator[Frame]:
    decoder = Decoder()
    async for chunk in answer.aiter_raw():
        for frame in decoder.feed(chunk):
            yield frame


def types_of(events: list[Json]) -> list[str]:
    return [event["type"] for event in events]


def _prefer(wait_s: int | None) -> dict[str, str]:
    if wait_s is None:
        return {}
    return {"prefer": "respond-async" if wait_s == 0 else f"wait={wait_s}"}


def _session(session: str) -> str:
    return f"/agents/{AGENT}/sessions/{quote(session, safe='')}"
