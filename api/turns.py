"""One turn, by its id."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from api import documents as doc
from api.answers import Json, turn_body
from api.context import context_of
from api.identity import identify
from api.status import TurnStatus

router = APIRouter(tags=["turns"])


@router.get(
    "/turns/{turn_id}",
    response_model=None,
    responses={200: {"model": TurnStatus}, **doc.problems(e404="No such turn.")},
)
async def show_turn(turn_id: str, request: Request) -> Response:
    """State, open item, outcome and all events so far."""
    runtime, tenant = context_of(request).runtime, identify(request).tenant
    view = await runtime.turn(tenant, turn_id)
    return Json(turn_body(view, await runtime.events(tenant, turn_id)))
