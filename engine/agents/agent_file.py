"""agent.yml: its words and their values. Every problem names file, line, what was found and what was expected.

name: customer-service            # optional; the folder's name
systemPrompt: |                   # who the agent is
  You help customers of a shop.
model: {provider: anthropic, model: claude-sonnet-5, maxTokens: 4096, baseUrl: ..., script: ...}
maxTurns: 25                      # model calls in one turn
contextBudgetTokens: 8000
turnTimeoutSeconds: 600           # running time of one turn; parked and queued time does not count
maxTokensPerTurn: 200000          # the turn ends with an error before the model call behind it
maxToolCalls: 100                 # in one turn
systemTools: [ask_user]           # false: none
toolDescription: ...              # what a parent agent reads when this is its sub-agent
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.models.config import ModelConfig
from engine.yaml_file import Document, Where, describe, read_yaml

_WORDS = (
    "name",
    "systemPrompt",
    "model",
    "maxTurns",
    "contextBudgetTokens",
    "turnTimeoutSeconds",
    "maxTokensPerTurn",
    "maxToolCalls",
    "systemTools",
    "toolDescription",
)
_MODEL_WORDS = {
    "provider": "provider",
    "model": "model",
    "maxTokens": "max_tokens",
    "baseUrl": "base_url",
    "script": "script",
}


@dataclass(frozen=True)
class AgentFile:
    """What one agent.yml says; None: it does not say. Without a document there is no such file."""

    document: Document | None = None
    name: str | None = None
    system_prompt: str | None = None
    model: ModelConfig | None = None
    max_turns: int | None = None
    context_budget_tokens: int | None = None
    turn_timeout_s: float | None = None
    max_tokens_per_turn: int | None = None
    max_tool_calls: int | None = None
    system_tools: tuple[str, ...] | None = None
    tool_description: str | None = None


def read_agent_file(path: Path) -> AgentFile | None:
    """The file's content, None when there is no file. Raises ConfigurationError."""
    try:
        document = read_yaml(path)
    except FileNotFoundError:
        return None
    data = document.data
    if not isinstance(data, dict):
        raise document.problem((), f"found {describe(data)}, expected a mapping of settings")
    _refuse_unknown_words(document, (), data, _WORDS)
    return AgentFile(
        document,
        name=_text(document, data, "name"),
        system_prompt=_text(document, data, "systemPrompt"),
        model=_model(document, data["model"]) if "model" in data else None,
        max_turns=_count(document, data, "maxTurns"),
        context_budget_tokens=_count(document, data, "contextBudgetTokens"),
        turn_timeout_s=_seconds(document, data, "turnTimeoutSeconds"),
        max_tokens_per_turn=_count(document, data, "maxTokensPerTurn"),
        max_tool_calls=_count(document, data, "maxToolCalls"),
        system_tools=_system_tools(document, data["systemTools"]) if "systemTools" in data else None,
        tool_description=_text(document, data, "toolDescription"),
    )


def model_config(written: str | Mapping[str, Any]) -> ModelConfig:
    """A model as agent.yml and Agent(model=...) write it. Raises ValueError with a sentence for the author."""
    if isinstance(written, str):
        return ModelConfig(model=written)
    unknown = [word for word in written if word not in _MODEL_WORDS]
    if unknown:
        raise ValueError(f"found {unknown[0]!r} under 'model', expected one of {', '.join(_MODEL_WORDS)}")
    for word, value in written.items():
        expected = int if word == "maxTokens" else str
        if not isinstance(value, expected) or isinstance(value, bool):
            kind = "a whole number" if expected is int else "text"
            raise ValueError(f"found {describe(value)} as {word!r}, expected {kind}")
    return ModelConfig(**{_MODEL_WORDS[word]: value for word, value in written.items()})


def _model(document: Document, written: Any) -> ModelConfig:
    where: Where = ("model",)
    if not isinstance(written, str | dict):
        raise document.problem(where, f"found {describe(written)} as 'model', expected a mapping or a model's name")
    if isinstance(written, dict):
        _refuse_unknown_words(document, where, written, tuple(_MODEL_WORDS))
    try:
        return model_config(written)
    except ValueError as error:
        raise document.problem(where, str(error)) from error


def _refuse_unknown_words(document: Document, where: Where, written: dict[str, Any], known: tuple[str, ...]) -> None:
    for word in written:
        if word not in known:
            close = difflib.get_close_matches(word, known, 1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise document.problem((*where, word), f"found {word!r}, expected one of {', '.join(known)}{hint}")


def _text(document: Document, data: dict[str, Any], word: str) -> str | None:
    if word not in data:
        return None
    value = data[word]
    if not isinstance(value, str) or not value.strip():
        raise document.problem((word,), f"found {describe(value)} as {word!r}, expected text")
    return value


def _count(document: Document, data: dict[str, Any], word: str) -> int | None:
    if word not in data:
        return None
    value = data[word]
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise document.problem((word,), f"found {describe(value)} as {word!r}, expected a whole number above 0")
    return value


def _seconds(document: Document, data: dict[str, Any], word: str) -> float | None:
    if word not in data:
        return None
    value = data[word]
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < float("inf"):
        raise document.problem((word,), f"found {describe(value)} as {word!r}, expected seconds above 0")
    return float(value)


def _system_tools(document: Document, written: Any) -> tuple[str, ...]:
    if written is False:
        return ()
    if not isinstance(written, list) or not all(isinstance(one, str) for one in written):
        problem = f"found {describe(written)} as 'systemTools', expected a list of names, or false"
        raise document.problem(("systemTools",), problem)
    return tuple(written)
