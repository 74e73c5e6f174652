"""Every event of protocol v1 as a frozen model, and the one union of them, told apart by ``type``.

The models mirror ``loop-event.schema.json``; a property test holds the two together. Engine and API move
events as plain dicts and bytes: the models are for whoever checks or consumes them. What the events mean and
in which order they come is written in PROTOCOL.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from protocol.shapes import Count, JsonObject, Maybe, Moment, Number, Wire

SCHEMA_PATH = Path(__file__).with_name("loop-event.schema.json")

StopReason = Literal["max_turns", "denied", "error", "cancelled"]


class Scope(Wire):
    """Where a call is judged: it selects the rules that apply."""

    tenant: str
    environment: str
    agent: str


class Nudge(Wire):
    """The reminder put into the conversation when the budget gets short. Open to further fields."""

    model_config = ConfigDict(extra="allow")

    role: str
    content: str


class _Event(Wire):
    agent_path: Maybe[str] = None
    """Which sub-agent speaks: agent names joined by "/". Absent for the turn's own agent."""


# --- from the loop


class BudgetCheck(_Event):
    type: Literal["budget:check"]
    action: Literal["ok", "nudge", "over_hard_limit"]
    used_tokens: Number
    budget_tokens: Number
    ratio: Number
    nudge: Maybe[Nudge] = None


class PromptCompaction(_Event):
    """``from_`` and ``to`` count messages, not tokens."""

    type: Literal["prompt:compaction"]
    from_: Number = Field(alias="from")
    to: Number


class AssistantText(_Event):
    type: Literal["assistant:text"]
    text: str


class ActauthDecision(_Event):
    type: Literal["actauth:decision"]
    tool: str
    decision: Literal["allow", "ask", "deny"]
    reason: str


class ToolStarted(_Event):
    """``id`` is the call's path, for example "2.0": second model call, first call in it."""

    type: Literal["tool:started"]
    id: str
    tool: str
    args: JsonObject
    detail_text: str


class ToolResult(_Event):
    type: Literal["tool:result"]
    id: str
    tool: str
    args: Maybe[JsonObject] = None
    detail_text: Maybe[str] = None
    status_text: str


class ToollaneResult(_Event):
    type: Literal["toollane:result"]
    name: str
    summary: str


class SkillLoaded(_Event):
    type: Literal["skill:loaded"]
    skill: str


class LoopSkipped(_Event):
    type: Literal["loop:skipped"]
    name: str
    denied_tools: list[str]


class LoopMaxTurns(_Event):
    type: Literal["loop:max_turns"]
    max_turns: Number


class LoopDenied(_Event):
    type: Literal["loop:denied"]
    denied_tools: list[str]


class LoopDone(_Event):
    type: Literal["loop:done"]
    text: str


# --- around the loop


class Session(_Event):
    type: Literal["session"]
    session_id: str
    turn_id: Maybe[str] = None


class ApprovalPending(_Event):
    type: Literal["approval:pending"]
    id: str
    tool: str
    args: JsonObject
    scope: Scope
    reason: str
    requested_at: Moment
    digest: Maybe[str] = None
    expires_at: Maybe[Moment] = None
    session_id: Maybe[str] = None
    turn_id: Maybe[str] = None


class QuestionPending(_Event):
    type: Literal["question:pending"]
    id: str
    question: str
    options: Maybe[list[str]] = None
    agent: str
    session_id: Maybe[str] = None
    turn_id: Maybe[str] = None
    requested_at: Moment
    expires_at: Maybe[Moment] = None


class Done(_Event):
    type: Literal["done"]
    text: str
    stop_reason: Maybe[StopReason] = None


class Error(_Event):
    type: Literal["error"]
    error: str


# --- added to v1 by LoopEngine


class AssistantDelta(_Event):
    """A piece of text while it is generated: no number, not kept, sent only to readers who asked for it."""

    type: Literal["assistant:delta"]
    text: str


class TurnResumed(_Event):
    """``attempt``: how many owners were lost since the turn last made progress, 1 for the first."""

    type: Literal["turn:resumed"]
    attempt: Count
    reason: str


class StreamReset(_Event):
    """What this reader was sent is not what the turn holds; the turn follows again from its first event."""

    type: Literal["stream:reset"]
    reason: str


LoopEvent = Annotated[
    BudgetCheck
    | PromptCompaction
    | AssistantText
    | ActauthDecision
    | ToolStarted
    | ToolResult
    | ToollaneResult
    | SkillLoaded
    | LoopSkipped
    | LoopMaxTurns
    | LoopDenied
    | LoopDone
    | Session
    | ApprovalPending
    | QuestionPending
    | Done
    | Error
    | AssistantDelta
    | TurnResumed
    | StreamReset,
    Field(discriminator="type"),
]

LOOP_EVENT: TypeAdapter[LoopEvent] = TypeAdapter(LoopEvent)


def validate_event(event: dict[str, Any]) -> LoopEvent:
    """The event as a model. Raises pydantic.ValidationError (a ValueError) that names field and fault."""
    return LOOP_EVENT.validate_python(event)
