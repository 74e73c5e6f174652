"""What an author writes in agent.py: ``agent = Agent(...)``. Only what was said; defaults are filled in on loading."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.models.config import ModelConfig
from engine.models.contract import Model
from engine.tools.tool import Tool

TenantFor = Callable[[Mapping[str, str]], str | None]
SessionIdFor = Callable[[Mapping[str, Any]], str | None]


@dataclass(frozen=True, kw_only=True)
class Agent:
    """An agent in code, instead of or beside agent.yml; what is None here is taken from there.

    ``name``, if given, is the folder's. ``model``: a model's name, a ModelConfig, a mapping like that in agent.yml, or
    any object that is an engine.models.contract.Model. ``tools``: tools or plain functions, besides tools/*.py.
    ``tenant_for(headers)`` and ``session_id_for(body)`` may also stand in agent.py as functions of those names.
    """

    name: str | None = None
    system_prompt: str | None = None
    model: str | ModelConfig | Mapping[str, Any] | Model | None = None
    tools: Sequence[Tool | Callable[..., Any]] = ()
    max_turns: int | None = None
    context_budget_tokens: int | None = None
    max_tokens: int | None = None
    turn_timeout_s: float | None = None
    max_tokens_per_turn: int | None = None
    max_tool_calls: int | None = None
    system_tools: Sequence[str] | None = None
    tenant_for: TenantFor | None = None
    session_id_for: SessionIdFor | None = None
