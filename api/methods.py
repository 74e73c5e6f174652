"""Which methods a path knows: for ``Allow``, which a single route cannot tell, because each knows only its own."""

from __future__ import annotations

from starlette.requests import Request
from starlette.routing import Match


def methods_of(request: Request) -> str:
    """As ``Allow`` lists them; "" for an unknown path."""
    methods: set[str] = set()
    for router in request.app.state.routers:
        for route in router.routes:
            if route.matches(request.scope)[0] is not Match.NONE:
                methods |= route.methods
    if not methods:
        return ""
    if "GET" in methods:
        methods.add("HEAD")
    return ", ".join(sorted(methods | {"OPTIONS"}))
