"""Which model an agent talks to, as its author wrote it. No keys, no clients, no network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

PROVIDERS: Final = ("anthropic", "openai", "scripted")

DEFAULT_MODELS: Final[Mapping[str, str]] = {"anthropic": "claude-sonnet-5", "scripted": "scripted"}
"""A provider that is not listed has no default: its agents must name a model."""

DEFAULT_MAX_TOKENS: Final = 4096


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """One agent's model. ``script`` is a path relative to the agent's folder, for provider ``scripted`` only.

    Raises ValueError with a sentence for the author; whoever read the file adds its name and line.
    """

    provider: str = "anthropic"
    model: str | None = None
    max_tokens: int = DEFAULT_MAX_TOKENS
    base_url: str | None = None
    script: str | None = None

    def __post_init__(self) -> None:
        if self.provider not in PROVIDERS:
            raise ValueError(f"unknown model provider {self.provider!r}: use one of {', '.join(PROVIDERS)}")
        if self.model is not None and not self.model.strip():
            raise ValueError("the model's name is empty: write it out, or leave `model` away for the default")
        if self.model is None and self.provider not in DEFAULT_MODELS:
            raise ValueError(f"provider {self.provider!r} has no default model: name one under `model`")
        if self.max_tokens < 1:
            raise ValueError(f"maxTokens must be 1 or more, found {self.max_tokens}")
        if self.provider == "scripted" and not self.script:
            raise ValueError("provider 'scripted' needs `script`: a YAML file of answers in the agent's folder")

    @property
    def model_name(self) -> str:
        return self.model or DEFAULT_MODELS[self.provider]
