"""POSTs that wait for a turn: to its end, to its open item, or as long as the client wants to."""

from __future__ import annotations

import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from api.answers import Json, turn_answer
from api.audience import Audience
from api.context import context_of
from api.preferences import Preference
from engine.runtime import Runtime, TurnView

LOOK_S = 2.0
"""How often a waiting request looks whether there is still a worker to wait for."""


async def answer_for(
    request: Request, tenant: str, turn_id: str, preference: Preference, decision: dict[str, Any] | None = None
) -> Response:
    """200 when the turn is over; 202 with its open item, or ``type: running`` when the waiting time was up.

    A turn that no worker would take is not waited for. A client that leaves and a server that stops end the waiting,
    never the turn.
    """
    context = context_of(request)
    runtime = context.runtime
    view: TurnView | None = None
    if preference.wait_s > 0 and await runtime.workers_alive():
        async with Audience(request.receive, context.farewell):
            view = await _settled(runtime, tenant, turn_id, preference.wait_s)
    if view is None:
        view = await runtime.turn(tenant, turn_id)
    status, body = turn_answer(view, await runtime.events(tenant, turn_id), decision)
    return Json(body, status, preference.applied)


async def _settled(runtime: Runtime, tenant: str, turn_id: str, wait_s: float) -> TurnView:
    deadline = time.monotonic() + wait_s
    while True:
        left_s = deadline - time.monotonic()
        view = await runtime.settled_view(tenant, turn_id, min(left_s, LOOK_S))
        if view.state in ("done", "parked") or view.blocking or left_s <= LOOK_S or not await runtime.workers_alive():
            return view
