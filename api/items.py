"""What waits for a person: the inbox of approvals and questions, and deciding them."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from api import documents as doc
from api.answers import Json, item_body
from api.body import body_of
from api.context import context_of
from api.identity import decider, identify
from api.preferences import preference_of
from api.status import ApprovalItem, ApprovalList, QuestionItem, QuestionList
from api.waiting import answer_for
from engine.runtime import Decision
from protocol.bodies import AnswerBody, ApproveBody, DecideBody
from protocol.errors import NotFound

router = APIRouter(tags=["approvals and questions"])

_GONE = doc.problems(e404="No such item.", e409="It is no longer open; `decision` tells what was decided.")
_DECIDED = {
    **doc.TURN_ANSWERS,
    **doc.BODY_PROBLEMS,
    **doc.problems(
        e404="No such item.",
        e409="Decided otherwise (`decision` tells how), expired, superseded, or shown with another digest.",
    ),
}


@router.get("/approvals", response_model=None, responses={200: {"model": ApprovalList}})
async def list_approvals(request: Request) -> Response:
    """The open approvals, newest last."""
    return await _inbox(request, "approval")


@router.get("/questions", response_model=None, responses={200: {"model": QuestionList}})
async def list_questions(request: Request) -> Response:
    """The open questions, newest last."""
    return await _inbox(request, "question")


@router.get("/approvals/{item_id}", response_model=None, responses={200: {"model": ApprovalItem}, **_GONE})
async def show_approval(item_id: str, request: Request) -> Response:
    """One open approval. Looking decides nothing."""
    return await _show(request, "approval", item_id)


@router.get("/questions/{item_id}", response_model=None, responses={200: {"model": QuestionItem}, **_GONE})
async def show_question(item_id: str, request: Request) -> Response:
    """One open question. Looking decides nothing."""
    return await _show(request, "question", item_id)


@router.post(
    "/approvals/{item_id}/approve",
    response_model=None,
    responses=_DECIDED,
    openapi_extra={**doc.body_of(ApproveBody, required=False), **doc.headers(doc.WAIT)},
)
async def approve(item_id: str, request: Request) -> Response:
    """Let the call run, with exactly the arguments that were shown. Repeating it gets the same decision back."""
    body = await body_of(request, ApproveBody, may_be_empty=True)
    return await _decide(request, item_id, Decision("approve", decider(identify(request), body.by), body.digest))


@router.post(
    "/approvals/{item_id}/deny",
    response_model=None,
    responses=_DECIDED,
    openapi_extra={**doc.body_of(DecideBody, required=False), **doc.headers(doc.WAIT)},
)
async def deny(item_id: str, request: Request) -> Response:
    """Do not let the call run; the turn ends as denied. The model is told the reason, if there is one."""
    body = await body_of(request, DecideBody, may_be_empty=True)
    by = decider(identify(request), body.by)
    return await _decide(request, item_id, Decision("deny", by, body.digest, body.reason))


@router.post(
    "/questions/{item_id}/answer",
    response_model=None,
    responses=_DECIDED,
    openapi_extra={**doc.body_of(AnswerBody), **doc.headers(doc.WAIT)},
)
async def answer(item_id: str, request: Request) -> Response:
    """Answer a question; options are suggestions. The model gets the answer exactly as it is."""
    body = await body_of(request, AnswerBody)
    by = decider(identify(request), None)
    return await _decide(request, item_id, Decision("answer", by, text=body.answer))


async def _decide(request: Request, item_id: str, decision: Decision) -> Response:
    context, tenant = context_of(request), identify(request).tenant
    preference = preference_of(request, context.settings.wait_s)
    decided = await context.runtime.settle(tenant, item_id, decision)
    return await answer_for(request, tenant, decided.turn_id, preference, decided.decision)


async def _inbox(request: Request, kind: Literal["approval", "question"]) -> Response:
    found = await context_of(request).runtime.inbox(identify(request).tenant, kind)
    return Json({f"{kind}s": [item_body(item) for item in found]})


async def _show(request: Request, kind: Literal["approval", "question"], item_id: str) -> Response:
    item = await context_of(request).runtime.item(identify(request).tenant, item_id)
    if item.kind != kind:
        raise NotFound(f"there is no open {kind} {item_id}")
    return Json(item_body(item))
