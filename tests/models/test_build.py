"""From configuration to model: overrides, keys, sharing, and no slow import on the way."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.models.build import aclose_models, build_model, with_overrides
from engine.models.config import ModelConfig
from engine.models.connection import Connection
from protocol.errors import ConfigurationError, ModelKeyMissing, ModelRefused
from tests.fake_provider import FakeProvider, text
from tests.models.asking import asking, settings_with

HERE = Path()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"provider": "gemini"}, "unknown model provider 'gemini'"),
        ({"provider": "openai"}, "name one under `model`"),
        ({"model": " "}, "name is empty"),
        ({"max_tokens": 0}, "maxTokens must be 1 or more"),
        ({"provider": "scripted"}, "needs `script`"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused_in_words(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ModelConfig(**fields)


def test_the_default_model_is_anthropics() -> None:
    assert (ModelConfig().provider, ModelConfig().model_name) == ("anthropic", "claude-sonnet-5")


@pytest.mark.parametrize(
    ("provider", "variable", "model"),
    [("anthropic", "ANTHROPIC_API_KEY", None), ("openai", "OPENAI_API_KEY", "gpt-x")],
)
@pytest.mark.parametrize("value", [None, ""])
def test_a_missing_key_is_named_when_the_model_is_built(
    monkeypatch: pytest.MonkeyPatch, provider: str, variable: str, model: str | None, value: str | None
) -> None:
    monkeypatch.delenv(variable)
    if value is not None:
        monkeypatch.setenv(variable, value)
    with pytest.raises(ModelKeyMissing, match=variable):
        build_model(ModelConfig(provider, model), HERE, settings_with())


def test_the_environment_moves_an_agent_to_another_provider() -> None:
    scripted = ModelConfig("scripted", script="answers.yml", max_tokens=99)
    moved = with_overrides(scripted, settings_with(LOOPENGINE_PROVIDER="anthropic"))
    assert (moved.provider, moved.model_name, moved.max_tokens) == ("anthropic", "claude-sonnet-5", 99)
    moved = with_overrides(scripted, settings_with(LOOPENGINE_PROVIDER="openai", LOOPENGINE_MODEL="gpt-x"))
    assert (moved.provider, moved.model_name) == ("openai", "gpt-x")


def test_an_address_does_not_follow_to_another_provider_but_stays_with_its_own() -> None:
    local = ModelConfig("openai", "local", base_url="http://localhost:1/v1")
    assert with_overrides(local, settings_with(LOOPENGINE_PROVIDER="anthropic")).base_url is None
    assert with_overrides(local, settings_with(LOOPENGINE_MODEL="other")).base_url == local.base_url


def test_an_override_that_names_no_model_says_which_variable_is_missing() -> None:
    with pytest.raises(ConfigurationError, match="LOOPENGINE_MODEL"):
        with_overrides(ModelConfig(), settings_with(LOOPENGINE_PROVIDER="openai"))


async def test_address_and_key_come_from_the_sdks_own_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeProvider([text("one"), text("two")]) as fake:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", fake.anthropic_url)
        monkeypatch.setenv("OPENAI_BASE_URL", fake.openai_url)
        for config in (ModelConfig(), ModelConfig("openai", "gpt-x")):
            await build_model(config, HERE, settings_with()).answer(asking())
        keys = [received.headers["authorization"] for received in fake.received]
    assert keys == ["Bearer sk-ant-not-a-key", "Bearer sk-not-a-key"]


async def test_models_of_one_configuration_share_a_connection() -> None:
    with FakeProvider(otherwise=text("x")) as fake:
        config = ModelConfig(base_url=fake.anthropic_url)
        first, second = (build_model(config, HERE, settings_with()) for _ in range(2))
        await asyncio.gather(*(model.answer(asking()) for model in (first, second)))
        await first.answer(asking())
        ports = {received.headers["host"] for received in fake.received}
        assert len(ports) == 1
    assert vars(first)["_connection"] is vars(second)["_connection"]


def test_a_model_can_be_used_from_one_event_loop_after_another() -> None:
    async def ask(url: str) -> None:
        await build_model(ModelConfig(base_url=url), HERE, settings_with()).answer(asking())
        await aclose_models()

    with FakeProvider(otherwise=text("x")) as fake:
        for _ in range(2):
            asyncio.run(ask(fake.anthropic_url))
        assert len(fake.requests) == 2


async def test_a_client_that_cannot_be_opened_is_tried_again_with_the_next_call() -> None:
    outcomes = [ImportError("no such SDK"), "client"]

    def load() -> object:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    connection = Connection(load)
    with pytest.raises(ModelRefused, match="no such SDK"):
        await connection.client()
    assert await connection.client() == "client"


def test_building_a_model_imports_no_sdk() -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from engine.models.build import build_model; from engine.models.config import ModelConfig\n"
        "from engine.settings import Settings\n"
        "build_model(ModelConfig(), Path(), Settings())\n"
        "build_model(ModelConfig('openai', 'x'), Path(), Settings())\n"
        "print([name for name in ('anthropic', 'openai', 'httpx2') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
