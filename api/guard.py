"""What every request passes first: Host and Origin, HEAD and OPTIONS; and what catches whatever nobody expected.

Plain ASGI on purpose: Starlette's BaseHTTPMiddleware hides from streams that their client has left.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.hosts import host_of, is_loopback
from api.methods import methods_of
from api.problems import Problem, problem, unexpected

HEAD = "loopengine.head"
"""In the scope of a HEAD request, which routes see as GET: a stream then sends its headers only."""

_NOT_SNIFFED = (b"x-content-type-options", b"nosniff")
_NOT_STORED = (b"cache-control", b"no-store")
_SAFE = ("GET", "HEAD", "OPTIONS")


class Guard:
    """``hosts``: names that a Host header may carry besides loopback; None: any (an authenticated or open server)."""

    def __init__(self, app: ASGIApp, *, hosts: frozenset[str] | None) -> None:
        self.app = app
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def guarded_send(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = message["headers"]
                message["headers"] = [*headers, _NOT_SNIFFED, *_unless_said(_NOT_STORED, headers)]
            await send(message)

        request = Request(scope)
        try:
            if (answer := self._answer(request)) is not None:
                await answer(scope, receive, guarded_send)
                return
            if scope["method"] == "HEAD":
                # A copy: the server keeps the true method, and so leaves the body out.
                scope = {**scope, "method": "GET", HEAD: True}
            await self.app(scope, receive, guarded_send)
        except ClientDisconnect:
            return  # nobody is left to be answered
        except Exception as error:
            if started:
                raise  # too late for an answer: the server closes the connection, which clients take for a cut
            await unexpected(request, error)(scope, receive, guarded_send)

    def _answer(self, request: Request) -> Response | None:
        """The answer to requests that never reach a route; None for all others."""
        if (refusal := self._refusal(request)) is not None:
            return refusal
        if b"%2f" in request.scope.get("raw_path", b"").lower():
            return problem(422, "agent names, session ids and other ids hold no slash, not even as %2F")
        if request.method == "OPTIONS" and (methods := methods_of(request)):
            return Response(status_code=204, headers={"allow": methods})
        return None

    def _refusal(self, request: Request) -> Problem | None:
        host = request.headers.get("host", "")
        if self.hosts is not None and not (is_loopback(host_of(host)) or host_of(host) in self.hosts):
            # A page of another site can point its own name at this address; its Host header gives it away.
            return problem(421, "this server answers only under the name it was started with, and as localhost")
        origin = request.headers.get("origin")
        if origin is not None and request.method not in _SAFE and _host_in(origin) != host.lower():
            return problem(403, "requests of pages of other origins are refused")
        return None


def _host_in(origin: str) -> str | None:
    """Host and port of a page; None for text that is no URL, such as ``http://[::1``."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _unless_said(header: tuple[bytes, bytes], headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [] if any(name == header[0] for name, _ in headers) else [header]
