"""From an agent's configuration to a model that can be called, with the operator's overrides applied.

Cheap to import and to call: keys are looked for here, SDKs are imported at the first answer.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from engine.models import anthropic, openai
from engine.models.config import ModelConfig
from engine.models.connection import Connection
from engine.models.contract import Model
from engine.models.script_file import Conversation, load_script
from engine.models.scripted import ScriptedModel
from engine.settings import Settings
from engine.watched_file import WatchedFile
from protocol.errors import ConfigurationError, ModelKeyMissing

CREDENTIALS: Final[Mapping[str, tuple[str, ...]]] = {
    "anthropic": (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_PROFILE",
        "ANTHROPIC_FEDERATION_RULE_ID",
    ),
    "openai": ("OPENAI_API_KEY",),
}
"""Variables from which the SDK can take its credentials; the first is the one that is asked for."""

BASE_URLS: Final[Mapping[str, str]] = {"anthropic": "ANTHROPIC_BASE_URL", "openai": "OPENAI_BASE_URL"}


class ClosableModel(Model, Protocol):
    async def aclose(self) -> None:
        """Close what the running event loop opened; models of the same configuration share it."""
        ...


_connections: dict[tuple[object, ...], Connection] = {}
_scripts: dict[Path, tuple[WatchedFile, tuple[Conversation, ...]]] = {}


def build_model(config: ModelConfig, folder: Path, settings: Settings) -> ClosableModel:
    """The model for ``config``; ``folder`` is the agent's, for its script. Makes no request.

    Raises ModelKeyMissing, and ConfigurationError for a script or an override that cannot be used.
    """
    config = with_overrides(config, settings)
    name, idle_s = config.model_name, settings.model_idle_s
    if config.provider == "scripted":
        return ScriptedModel(_script(folder / (config.script or "")), name)
    connection = _connection(config, idle_s)
    if config.provider == "openai":
        return openai.OpenAIModel(connection, name, idle_s)
    return anthropic.AnthropicModel(connection, name, idle_s)


def with_overrides(config: ModelConfig, settings: Settings) -> ModelConfig:
    """LOOPENGINE_PROVIDER and LOOPENGINE_MODEL win over the agent's file.

    With another provider the agent's model and address mean nothing, so they go as well. Raises ConfigurationError.
    """
    provider = settings.provider or config.provider
    moved = provider != config.provider
    try:
        return replace(
            config,
            provider=provider,
            model=settings.model or (None if moved else config.model),
            base_url=None if moved else config.base_url,
        )
    except ValueError as error:
        problem = f"{error} (set LOOPENGINE_MODEL to name a model)" if settings.model is None else str(error)
        raise ConfigurationError("LOOPENGINE_PROVIDER", None, problem) from error


async def aclose_models() -> None:
    """Close every connection that the running event loop opened; call it when a process shuts down."""
    for connection in list(_connections.values()):
        await connection.aclose()


def _connection(config: ModelConfig, idle_s: float) -> Connection:
    provider = config.provider
    credentials = tuple(os.environ.get(variable) or None for variable in CREDENTIALS[provider])
    if not any(credentials):
        raise ModelKeyMissing(provider, CREDENTIALS[provider][0])
    # Part of the key, so that a changed environment gets a new client; hashed, so that no key is kept here.
    address = config.base_url or os.environ.get(BASE_URLS[provider])
    key = (provider, address, idle_s, hash(credentials))
    if key not in _connections:
        load = openai.open_client if provider == "openai" else anthropic.open_client
        _connections[key] = Connection(partial(load, config.base_url, idle_s))
    return _connections[key]


def _script(path: Path) -> tuple[Conversation, ...]:
    """Read again only when the file may have changed: a script is asked for with every turn."""
    watched, conversations = _scripts.pop(path, (WatchedFile(path), ()))
    if watched.changed():
        conversations = load_script(path)
    _scripts[path] = (watched, conversations)
    return conversations
