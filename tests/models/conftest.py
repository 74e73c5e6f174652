from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from engine.models.build import aclose_models


@pytest.fixture(autouse=True)
async def _keys_and_open_connections(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-not-a-key")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-key")
    yield
    await aclose_models()
