"""A turn's events as Server-Sent Events, live and from any place on.

The route says which turn; here is from where, the framing, the pause-filling comments and the end. Events go out as
the bytes they were stored as. Nothing is buffered: the next event is taken when the client took the last one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

import orjson
import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.audience import Audience, Farewell
from api.context import Context, context_of
from api.guard import HEAD
from engine.views import TurnView
from protocol.errors import MalformedRequest, StoreUnavailable, TurnGone
from protocol.json_text import dumps
from protocol.sse import Cursor, comment, frame

MEDIA_TYPE = "text/event-stream"
RETRY = b"retry: 1000\n\n"
HEARTBEAT = comment("")
GOODBYE = comment("the server stops: reconnect")
AWAY = comment("the store does not answer: reconnect")

_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}
_MAX_CURSOR_CHARS = 100

_log = structlog.get_logger("api")


def cursor_of(request: Request) -> Cursor | None:
    """Where the client stopped reading; None: nowhere yet, as with an empty header. Raises MalformedRequest."""
    text = request.headers.get("last-event-id", "")
    if not text:
        return None
    cursor = Cursor.parse(text) if len(text) <= _MAX_CURSOR_CHARS else None
    if cursor is None:
        raise MalformedRequest(
            "Last-Event-ID is not the id of an event of this API: leave it out to read from the start"
        )
    return cursor


async def stream_turn(request: Request, tenant: str, view: TurnView, cursor: Cursor | None) -> Response:
    """The events after ``cursor``, to ``done``; 204 when ``cursor`` is at ``done`` already."""
    context = context_of(request)
    after, reset = 0, False
    if cursor is not None:
        reset = not await context.runtime.cursor_holds(tenant, view.turn_id, cursor.n, cursor.writer)
        after = 0 if reset else cursor.n
    if after and view.state == "done" and after >= view.n_events:
        return Response(status_code=204)
    return EventStream(_frames(context, tenant, view.turn_id, after, reset), context.farewell)


async def _frames(context: Context, tenant: str, turn_id: str, after: int, reset: bool) -> AsyncGenerator[bytes, None]:
    if reset:
        yield _reset("the event of this Last-Event-ID is not (or no longer) one of this turn")
    async with aclosing(context.runtime.follow(tenant, turn_id, after)) as entries:
        async for entry in entries:
            if entry is None:
                yield HEARTBEAT
                continue
            if entry.n != after + 1:
                yield _reset("the store lost events that were sent before")
            after = entry.n
            yield frame(entry.event, _type_of(entry.event), f"{entry.n}-{entry.writer}")


def _erased() -> bytes:
    """The end of a turn that was erased before this reader had come to its end. Without ids: nothing holds them."""
    error = {"type": "error", "error": "the session of this turn was deleted, or its time to be kept is over"}
    done = {"type": "done", "text": "", "stopReason": "error"}
    return frame(dumps(error), "error", None) + frame(dumps(done), "done", None)


def _reset(reason: str) -> bytes:
    # Without an id: a client that is cut right here asks again with the cursor it had, and is told again.
    return frame(dumps({"type": "stream:reset", "reason": reason}), "stream:reset", None)


_HEAD_OF_EVENT = b'{"type":"'


def _type_of(event: bytes) -> str:
    if event.startswith(_HEAD_OF_EVENT):
        # The vocabulary's names hold neither quotes nor escapes.
        return event[len(_HEAD_OF_EVENT) : event.index(b'"', len(_HEAD_OF_EVENT))].decode("ascii")
    return str(orjson.loads(event)["type"])


class EventStream(Response):
    """Sends frames while the client is there; ends by itself after the last, or when the server says farewell."""

    media_type = MEDIA_TYPE

    def __init__(self, frames: AsyncGenerator[bytes, None], farewell: Farewell) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._frames = frames
        self._farewell = farewell

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        last = b""
        if not scope.get(HEAD):
            async with Audience(receive, self._farewell) as audience:
                last = await self._send_frames(send)
            if audience.gone:
                return
            if audience.cut:
                last = GOODBYE
        await send({"type": "http.response.body", "body": last, "more_body": False})

    async def _send_frames(self, send: Send) -> bytes:
        """Answers the last thing to send."""
        await send({"type": "http.response.body", "body": RETRY, "more_body": True})
        try:
            async with aclosing(self._frames):
                async for chunk in self._frames:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except StoreUnavailable as error:
            # Ending without ``done`` is how a client learns to come back with its cursor.
            _log.warning("a stream was cut because the store is away", problem=str(error))
            return AWAY
        except TurnGone:
            return _erased()
        return b""
