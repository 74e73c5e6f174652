"""What the engine asks of a model and what a model answers: the one shape every provider translates to.

Messages and blocks are plain dicts in Anthropic's vocabulary, because it is the richest of the wires:

    {"role": "user", "content": [{"type": "text", "text": ...},
                                 {"type": "tool_result", "tool_use_id": ..., "content": str, "is_error": bool}]}
    {"role": "assistant", "content": [{"type": "thinking", ...}, {"type": "text", "text": ...},
                                      {"type": "tool_use", "id": ..., "name": ..., "input": {...}}]}

A tool_use block whose arguments were not a JSON object carries ``"input": {}`` and ``"input_raw"``: the text as
received. The engine answers it with an error result and never runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Block = dict[str, Any]
Message = dict[str, Any]

Stop = Literal["end_turn", "tool_use", "max_tokens", "refusal", "pause", "other"]


@dataclass(frozen=True, slots=True)
class ToolSchema:
    name: str
    description: str
    input_schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One model call. ``messages`` is valid by construction: every tool_use has exactly one tool_result."""

    system: str
    messages: list[Message]
    tools: list[ToolSchema]
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Usage:
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """A complete answer. ``blocks`` as received (order, bytes of thinking blocks and signatures untouched)."""

    blocks: list[Block]
    stop: Stop
    usage: Usage
    provider: str
    model: str


OnText = Callable[[str], None]


class Model(Protocol):
    """One provider with one configuration. Safe to share between turns; holds no conversation."""

    provider: str

    async def answer(self, request: ModelRequest, on_text: OnText | None = None) -> ModelAnswer:
        """Call the provider once, without retries of its own.

        Raises ModelBusy, ModelCut, ModelTooLong or ModelRefused (protocol.errors) and nothing else but
        cancellation. An answer is returned only when the stream came to its proper end.
        """
        ...
