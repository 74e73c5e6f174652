"""The fake's two routes as an ASGI application: check the request, take the next entry, send it.

POST /v1/messages                                Anthropic
POST /v1/chat/completions                        OpenAI
POST /deepseek/v1/chat/completions, /r1/v1/...   DeepSeek with thinking, and its R1
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.fake_provider import frames
from tests.fake_provider.rules import Mode, Rules
from tests.fake_provider.script import Entry, Queue
from tests.fake_provider.strict_json import strict_loads

Wire = Literal["anthropic", "openai"]


@dataclass(frozen=True)
class Received:
    """One request. ``body`` is None when it was no strict JSON; ``refused`` is the rule it broke."""

    wire: Wire
    path: str
    headers: dict[str, str]
    raw: bytes
    body: dict[str, Any] | None
    refused: str | None


class FakeApp:
    def __init__(self, queue: Queue, max_bytes: int, log: Path | None) -> None:
        self.queue = queue
        self.rules = Rules()
        self.received: list[Received] = []
        self.arrived = threading.Condition()
        self._max_bytes = max_bytes
        self._log = log

    def asgi(self) -> Starlette:
        routes = [self._route("/v1/messages", "anthropic", "openai")]
        modes: list[tuple[str, Mode]] = [("", "openai"), ("/deepseek", "deepseek"), ("/r1", "r1")]
        routes += [self._route(f"{prefix}/v1/chat/completions", "openai", mode) for prefix, mode in modes]
        return Starlette(routes=routes)

    def _route(self, path: str, wire: Wire, mode: Mode) -> Route:
        async def endpoint(request: Request) -> Response:
            return await self._answer(request, wire, mode)

        return Route(path, endpoint, methods=["POST"])

    async def _answer(self, request: Request, wire: Wire, mode: Mode) -> Response:
        raw = await request.body()
        body, problem = self._checked(raw, wire, mode)
        if problem is None and not (request.headers.get("authorization") or request.headers.get("x-api-key")):
            problem = "no key was sent"
        self._record(Received(wire, request.url.path, dict(request.headers), raw, body, problem))
        entry = self.queue.next(body) if body is not None and problem is None else None
        if body is None or problem is not None or entry is None:
            return JSONResponse(_error(problem or "the script has no more entries"), 400)
        if entry.get("sleep"):
            await asyncio.sleep(entry["sleep"])
        return self._response(entry, wire, body)

    def _checked(self, raw: bytes, wire: Wire, mode: Mode) -> tuple[dict[str, Any] | None, str | None]:
        try:
            body = strict_loads(raw)
        except (ValueError, RecursionError) as error:
            return None, f"the body is not strict JSON: {error}"
        if not isinstance(body, dict):
            return None, "the body is not an object"
        if len(raw) > self._max_bytes:
            return body, f"prompt is too long: {len(raw)} bytes > {self._max_bytes} maximum"
        return body, self.rules.anthropic(body) if wire == "anthropic" else self.rules.openai(body, mode)

    def _response(self, entry: Entry, wire: Wire, body: dict[str, Any]) -> Response:
        if "status" in entry:
            return JSONResponse(entry.get("body", {}), entry["status"], headers=entry.get("headers"))
        if "raw_sse" in entry:
            pieces, then = list(frames.raw_pieces(entry)), entry.get("then", "close")
            return _stream(pieces, then, entry.get("content_type", "text/event-stream"))
        self.rules.remember(frames.blocks_of(entry))
        model = entry.get("model", body["model"])
        if not body.get("stream"):
            whole: Callable[[Entry, str], dict[str, Any]] = (
                frames.anthropic_message if wire == "anthropic" else frames.chat_completion
            )
            return JSONResponse(whole(entry, model))
        if wire == "anthropic":
            return _stream(list(frames.anthropic_stream(entry, model)), "close")
        with_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        return _stream(list(frames.chat_stream(entry, model, with_usage)), "close")

    def _record(self, received: Received) -> None:
        with self.arrived:
            self.received.append(received)
            self.arrived.notify_all()
        if self._log is not None:
            line = {"wire": received.wire, "path": received.path, "refused": received.refused, "body": received.body}
            with self._log.open("a", encoding="ascii") as file:
                file.write(json.dumps(line) + "\n")


def _stream(pieces: Iterable[bytes | float], then: str, content_type: str = "text/event-stream") -> Response:
    async def body() -> AsyncIterator[bytes]:
        for piece in pieces:
            if isinstance(piece, bytes):
                yield piece
            else:
                await asyncio.sleep(piece)
        if then == "hang":
            await asyncio.Event().wait()
        if then == "reset":
            raise ConnectionResetError("the script asks for a broken connection")

    return StreamingResponse(body(), media_type=content_type)


def _error(message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
