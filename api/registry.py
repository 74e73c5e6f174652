"""Which agents there are, and what is wrong with those that cannot be loaded."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from api.answers import Json
from api.context import context_of
from api.paths import without_outside_paths
from api.status import AgentList

router = APIRouter(tags=["agents"])


@router.get("/agents", response_model=None, responses={200: {"model": AgentList}})
async def list_agents(request: Request) -> Response:
    """The agents that can run, and what is wrong with the others: file, line, problem."""
    agents = context_of(request).runtime.agents
    problems = {name: without_outside_paths(text, request) for name, text in agents.problems().items()}
    return Json({"agents": [{"name": name} for name in agents.names()], "problems": problems})
