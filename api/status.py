"""Answers of the GET routes as models, for the documentation; ``api.answers`` builds them."""

from __future__ import annotations

from typing import Literal

from protocol.events import LoopEvent, Scope, StopReason
from protocol.shapes import JsonObject, Maybe, Moment, Wire

TurnState = Literal["waiting", "queued", "running", "parked", "done"]


class _Item(Wire):
    id: str
    agent: str
    session_id: str
    turn_id: str
    requested_at: Moment
    expires_at: Maybe[Moment] = None
    status_url: str


class ApprovalItem(_Item):
    type: Literal["approval"]
    tool: str
    args: JsonObject
    scope: Scope
    reason: str
    digest: str
    approve_url: str
    deny_url: str


class QuestionItem(_Item):
    type: Literal["question"]
    question: str
    options: Maybe[list[str]] = None
    answer_url: str


class ApprovalList(Wire):
    approvals: list[ApprovalItem]


class QuestionList(Wire):
    questions: list[QuestionItem]


class TurnStatus(Wire):
    turn_id: str
    session_id: str
    agent: str
    environment: str
    state: TurnState
    note: Maybe[str] = None
    """Why a turn that could run does not."""
    item: Maybe[ApprovalItem | QuestionItem] = None
    blocking: Maybe[ApprovalItem | QuestionItem] = None
    """The open item of the turn that this one waits for."""
    text: Maybe[str] = None
    stop_reason: Maybe[StopReason] = None
    error: Maybe[str] = None
    usage: dict[str, int]
    accepted_at: Moment
    status_url: str
    events: list[LoopEvent]


class TurnLine(Wire):
    turn_id: str
    state: TurnState
    stop_reason: Maybe[StopReason] = None


class SessionStatus(Wire):
    session_id: str
    agent: str
    state: Literal["idle", "queued", "running", "parked"]
    turn_id: Maybe[str] = None
    """The active turn, else the last one."""
    item: Maybe[ApprovalItem | QuestionItem] = None
    turns: list[TurnLine]
    messages: list[JsonObject]
    usage: dict[str, int]
    stream_url: str


class SessionLine(Wire):
    session_id: str
    agent: str
    state: str
    turn_id: Maybe[str] = None
    status_url: str


class SessionList(Wire):
    sessions: list[SessionLine]


class Stopped(Wire):
    cancelled: bool
    session_id: str
    turn_id: Maybe[str] = None
    status_url: str


class AgentName(Wire):
    name: str


class AgentList(Wire):
    agents: list[AgentName]
    problems: dict[str, str]
    """By folder: file, line and what is wrong."""


class Alive(Wire):
    status: Literal["ok"]


class Ready(Wire):
    status: Literal["ready"]
    workers_alive: bool
