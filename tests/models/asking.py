"""Requests and models for the tests of the providers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from engine.models.build import ClosableModel, build_model
from engine.models.config import ModelConfig
from engine.models.contract import Block, Message, ModelRequest, ToolSchema
from engine.settings import Settings
from tests.fake_provider import FakeProvider

Wire = Literal["anthropic", "openai"]

LEDGER = ToolSchema("ledger_add", "adds", {"type": "object", "properties": {"key": {"type": "string"}}})


def said(text: str) -> Block:
    return {"type": "text", "text": text}


def user(*blocks: Block | str) -> Message:
    return {"role": "user", "content": [said(block) if isinstance(block, str) else block for block in blocks]}


def use(id_: str, name: str = "ledger_add", **args: Any) -> Block:
    return {"type": "tool_use", "id": id_, "name": name, "input": args}


def result(id_: str, content: str = "added", is_error: bool = False) -> Block:
    return {"type": "tool_result", "tool_use_id": id_, "content": content, "is_error": is_error}


def asking(*messages: Message, max_tokens: int = 256) -> ModelRequest:
    return ModelRequest("You help.", list(messages or [user("hello")]), [LEDGER], max_tokens)


def model_on(fake: FakeProvider, wire: Wire, idle_s: float = 10.0) -> ClosableModel:
    url = fake.anthropic_url if wire == "anthropic" else fake.openai_url
    settings = settings_with(LOOPENGINE_MODEL_IDLE_SECONDS=idle_s)
    return build_model(ModelConfig(wire, "fake-1", base_url=url), Path(), settings)


def settings_with(**variables: object) -> Settings:
    return Settings.model_validate(variables)
