"""The HTTP API as one application: routes, the guard before them, and the table of problems behind them.

Receives what it works with and reads no environment. Whoever opened the runtime closes it.
"""

from __future__ import annotations

from importlib.metadata import version

from fastapi import FastAPI

from api import health, items, messages, problems, registry, sessions, turns
from api.context import Context
from api.guard import Guard
from api.hosts import WILDCARDS
from engine.runtime import Runtime
from engine.settings import Settings

ROUTERS = (messages.router, sessions.router, turns.router, items.router, registry.router, health.router)


def create_app(runtime: Runtime, settings: Settings) -> FastAPI:
    """An ASGI application. It answers under loopback names and ``settings.host``; when that stands for all addresses
    (which ``api.serve`` allows only on request) under any name."""
    app = FastAPI(
        title="LoopEngine",
        version=version("loopengine"),
        summary="Durable agent turns: send, watch, approve, resume.",
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.context = Context(runtime, settings)
    app.state.routers = ROUTERS
    for router in ROUTERS:
        app.include_router(router)
    for kind, handler in problems.HANDLERS.items():
        app.add_exception_handler(kind, handler)
    hosts = None if settings.host in WILDCARDS else frozenset({settings.host.lower()})
    app.add_middleware(Guard, hosts=hosts)
    return app
