"""Is this process alive, and can it do its work? For load balancers and people, not for programs that count."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from api import documents as doc
from api.answers import Json
from api.context import context_of
from api.status import Alive, Ready
from engine.store.keys import PARTITIONS
from protocol.errors import StoreUnsuitable

router = APIRouter(tags=["operations"])


@router.get("/healthz", response_model=None, responses={200: {"model": Alive}})
async def healthz() -> Response:
    """This process answers. Says nothing about the store."""
    return Json({"status": "ok"})


@router.get(
    "/readyz", response_model=None, responses={200: {"model": Ready}, **doc.problems(e503="The store is not usable.")}
)
async def readyz(request: Request) -> Response:
    """The store answers and is divided as this process believes. Without workers it is ready: turns are kept."""
    runtime = context_of(request).runtime
    await runtime.ping()
    present = await runtime.store.connection.command("GET", PARTITIONS)
    expected = len(runtime.store.partitions)
    if present is None or int(present) != expected:
        found = "none" if present is None else str(int(present))
        raise StoreUnsuitable(
            f"the store has {found} partition(s), not {expected}: it was emptied or replaced; restart"
        )
    return Json({"status": "ready", "workersAlive": await runtime.workers_alive()})
