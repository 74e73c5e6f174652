"""Runs the application on a port: uvicorn, with a stop that open streams notice at once.

Owns the bind address (loopback only while nobody has to authenticate) and, if wanted, the signals.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api.context import Context
from api.hosts import is_loopback
from api.problems import problem
from protocol.errors import ConfigurationError, OperatorError

GRACE_S = 2
"""How long a client that does not read its goodbye may keep the process."""
BACKLOG = 4096
KEEP_ALIVE_S = 75
"""Longer than clients and proxies keep an idle connection: if the server is first, a request can meet its closing."""


class Protocol(HttpToolsProtocol):
    """HTTP/1.1 whose own refusal, of what is not HTTP at all, is a problem document like any other."""

    def send_400_response(self, msg: str) -> None:
        answer = problem(400, f"this is not an acceptable HTTP/1.1 request ({msg.rstrip('.').lower()})")
        lines = [b"HTTP/1.1 400 Bad Request", *(name + b": " + value for name, value in answer.raw_headers)]
        self.transport.write(b"\r\n".join([*lines, b"connection: close", b"", bytes(answer.body)]))
        self.transport.close()


class Server(uvicorn.Server):
    """A server that says farewell to streams and waiting requests the moment it is told to stop."""

    def __init__(
        self, config: uvicorn.Config, context: Context, on_ready: Callable[[], None], *, own_signals: bool
    ) -> None:
        super().__init__(config)
        self._context = context
        self._on_ready = on_ready
        self._own_signals = own_signals
        self._loop = asyncio.get_running_loop()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    def stop(self) -> None:
        self.should_exit = True
        self._context.farewell.say()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        # A signal handler may interrupt the event loop anywhere; only this call is made for that.
        self._loop.call_soon_threadsafe(self._context.farewell.say)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._context.farewell.say()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # Uvicorn raises each signal again at the end, which would end the process before the runtime is closed.
        if not self._own_signals:
            yield
            return
        before = {sig: signal.signal(sig, self.handle_exit) for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)


async def serve(
    app: FastAPI,
    host: str,
    port: int,
    *,
    on_ready: Callable[[str], None] = lambda _url: None,
    stop: asyncio.Event | None = None,
    open_to_all: bool = False,
) -> None:
    """Serve until ``stop`` is set; without ``stop``, until SIGINT or SIGTERM (main thread only). Port 0: any free one.

    ``on_ready`` gets the URL once connections are taken. Raises ConfigurationError for an address that others can
    reach, unless ``open_to_all``; OperatorError when the address cannot be had.
    """
    if not open_to_all and not is_loopback(host):
        raise ConfigurationError(
            "LOOPENGINE_HOST",
            None,
            f"{host!r} can be reached by others, and nobody has to authenticate: bind 127.0.0.1, "
            "or allow it explicitly if something in front of it authenticates",
        )
    listener = _bind(host, port)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        http=Protocol,
        ws="none",
        timeout_graceful_shutdown=GRACE_S,
        timeout_keep_alive=KEEP_ALIVE_S,
    )
    server = Server(config, app.state.context, lambda: on_ready(_url(listener)), own_signals=stop is None)
    stopping = asyncio.create_task(_stop_when(stop, server)) if stop is not None else None
    try:
        await server.serve(sockets=[listener])
    finally:
        listener.close()
        if stopping is not None:
            stopping.cancel()


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0]
        # With the protocol named, asyncio turns Nagle's algorithm off for what this accepts. Otherwise an answer's
        # body waits for the acknowledgement of its head: 40 ms.
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise OperatorError(f"cannot listen on {host}: {error.strerror}") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise OperatorError(f"cannot listen on {host} port {port}: {error.strerror}; choose another port") from error
    listener.setblocking(False)
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def _stop_when(stop: asyncio.Event, server: Server) -> None:
    await stop.wait()
    server.stop()
