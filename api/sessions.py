"""Sessions: what was said in them, their turns' streams, and ending or erasing them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from api import documents as doc
from api.answers import Json, session_body
from api.body import no_body
from api.context import context_of
from api.identity import identify
from api.paths import status_url
from api.status import SessionList, SessionStatus, Stopped
from api.streams import cursor_of, stream_turn
from engine.runtime import check_session_id
from protocol.errors import NotFound

router = APIRouter(prefix="/agents/{agent}/sessions", tags=["sessions"])

_NOT_FOUND = doc.problems(e404="No such session.")


@router.get("", response_model=None, responses={200: {"model": SessionList}})
async def list_sessions(agent: str, request: Request, limit: Annotated[int, Query(ge=1, le=500)] = 50) -> Response:
    """The agent's sessions, latest first."""
    runtime = context_of(request).runtime
    found = await runtime.sessions(identify(request).tenant, agent, limit)
    if not found and agent not in {*runtime.agents.names(), *runtime.agents.problems()}:
        raise NotFound(f"there is no agent named {agent[:80]!r}")
    listed = [{**line, "statusUrl": status_url(line["agent"], line["sessionId"])} for line in found]
    return Json({"sessions": listed})


@router.get("/{session_id}", response_model=None, responses={200: {"model": SessionStatus}, **_NOT_FOUND})
async def show_session(agent: str, session_id: str, request: Request) -> Response:
    """State, open item, turns, messages and usage of a session."""
    check_session_id(session_id)
    return Json(session_body(await context_of(request).runtime.session(identify(request).tenant, agent, session_id)))


@router.get(
    "/{session_id}/stream",
    response_model=None,
    responses={**doc.EVENT_STREAM, **_NOT_FOUND, **doc.problems(e400="Last-Event-ID is not an id of this API.")},
    openapi_extra=doc.headers(doc.LAST_EVENT_ID),
)
async def stream_session(
    agent: str,
    session_id: str,
    request: Request,
    turn: Annotated[
        str | None, Query(description="Id of one of its turns; default: the current one, else the last.")
    ] = None,
) -> Response:
    """The events of one turn, from the start or behind Last-Event-ID, live until `done`.

    `stream:reset` comes first when the event of Last-Event-ID is not, or no longer, one of this turn: everything
    follows again from the first event.
    """
    check_session_id(session_id)
    tenant, runtime = identify(request).tenant, context_of(request).runtime
    cursor = cursor_of(request)
    if turn is None:
        turn = await runtime.current_turn(tenant, agent, session_id)
        if turn is None:
            raise NotFound(f"session {session_id} of agent {agent} has no turn")
    view = await runtime.turn(tenant, turn)
    if (view.agent, view.session_id) != (agent, session_id):
        raise NotFound(f"there is no turn {turn} in this session")
    return await stream_turn(request, tenant, view, cursor)


@router.post("/{session_id}/cancel", response_model=None, responses={200: {"model": Stopped}, **_NOT_FOUND})
async def cancel_session(agent: str, session_id: str, request: Request, turn: str | None = None) -> Response:
    """End the active turn: `done` with stopReason `cancelled`.

    `cancelled` is false if none was active. With `?turn=` only that turn is ended, which makes it safe to repeat:
    without, a repeat may end the message that waited behind it.
    """
    check_session_id(session_id)
    await no_body(request)
    turn_id = await context_of(request).runtime.cancel(identify(request).tenant, agent, session_id, turn)
    known = {"turnId": turn_id} if turn_id else {}
    status = status_url(agent, session_id)
    return Json({"cancelled": turn_id is not None, "sessionId": session_id, **known, "statusUrl": status})


@router.delete("/{session_id}", response_model=None, status_code=204, responses=_NOT_FOUND)
async def erase_session(agent: str, session_id: str, request: Request) -> Response:
    """Cancel the session's turns and erase everything that is stored of it."""
    check_session_id(session_id)
    await context_of(request).runtime.erase(identify(request).tenant, agent, session_id)
    return Response(status_code=204)
