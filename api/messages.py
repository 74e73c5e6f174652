"""Sending a message to an agent: answered when the turn settles, or as its live stream."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from api import documents as doc
from api.body import body_of
from api.context import context_of
from api.identity import Identity, identify
from api.preferences import idempotency_key_of, preference_of
from api.streams import cursor_of, stream_turn
from api.waiting import answer_for
from engine.runtime import Accepted, NewTurn
from protocol.bodies import SendMessage

router = APIRouter(tags=["messages"])

_PROBLEMS = {
    **doc.BODY_PROBLEMS,
    **doc.problems(
        e404="No such agent.",
        e409="The session is busy (`onBusy: reject`), or the Idempotency-Key came with another body.",
        e429="Too many messages wait in this session.",
    ),
}


@router.post(
    "/agents/{agent}/messages",
    response_model=None,
    responses={**doc.TURN_ANSWERS, **_PROBLEMS},
    openapi_extra={**doc.body_of(SendMessage), **doc.headers(doc.WAIT, doc.KEY)},
)
async def send_message(agent: str, request: Request) -> Response:
    """Start a turn and wait for its end or its open item.

    A session runs one turn at a time: further messages wait in line (`onBusy: queue`). If an open item is in the way,
    the answer is 202 with that item and `queued: true`. Without an Idempotency-Key two equal messages are two turns.
    """
    identity = identify(request)
    preference = preference_of(request, context_of(request).settings.wait_s)
    accepted = await _accept(agent, request, identity)
    return await answer_for(request, identity.tenant, accepted.turn_id, preference)


@router.post(
    "/agents/{agent}/messages/stream",
    response_model=None,
    responses={**doc.EVENT_STREAM, **_PROBLEMS},
    openapi_extra={**doc.body_of(SendMessage), **doc.headers(doc.KEY, doc.LAST_EVENT_ID)},
)
async def stream_message(agent: str, request: Request) -> Response:
    """Start a turn and read its events, from `session` to `done`.

    While the turn waits for a person the stream stays open. Closing it stops nothing: read on with
    `GET .../sessions/{id}/stream`, or send the same request with its Idempotency-Key and Last-Event-ID again.
    """
    identity = identify(request)
    cursor = cursor_of(request)
    accepted = await _accept(agent, request, identity)
    view = await context_of(request).runtime.turn(identity.tenant, accepted.turn_id)
    return await stream_turn(request, identity.tenant, view, cursor)


async def _accept(agent: str, request: Request, identity: Identity) -> Accepted:
    context = context_of(request)
    key = idempotency_key_of(request)
    body = await body_of(request, SendMessage)
    return await context.runtime.accept(
        NewTurn(
            tenant=identity.tenant,
            environment=context.settings.environment,
            agent=agent,
            message=body.message,
            session_id=body.session_id,
            on_busy=body.on_busy,
            idempotency_key=key,
            context=body.context,
        )
    )
