"""Provider ``anthropic``: the Messages API through the official SDK, with streaming, without the SDK's retries.

The SDK does HTTP; what a stream means is decided in anthropic_answer.py, and what an error means in failures.py.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any, Final

from engine.models.anthropic_answer import AnthropicAnswer
from engine.models.blocks import outgoing
from engine.models.connection import Connection
from engine.models.contract import ModelAnswer, ModelRequest, OnText
from engine.models.failures import opening_failure
from engine.models.stream import read_stream

PROVIDER: Final = "anthropic"
KEY: Final = "ANTHROPIC_API_KEY"
CONNECT_S: Final = 10.0


def open_client(base_url: str | None, idle_s: float) -> Any:
    """Blocking: imports the SDK. Key and, without ``base_url``, the address come from its own variables."""
    import anthropic
    import httpx2

    timeout = httpx2.Timeout(idle_s, connect=min(idle_s, CONNECT_S))
    client = anthropic.AsyncAnthropic(base_url=base_url, timeout=timeout, max_retries=0)
    # Resources are imported at first touch; here is the thread where that does not stop the event loop.
    client.messages.with_streaming_response  # noqa: B018
    return client


class AnthropicModel:
    provider = PROVIDER

    def __init__(self, connection: Connection, model: str, idle_s: float) -> None:
        self._connection = connection
        self._model = model
        self._idle_s = idle_s

    async def answer(self, request: ModelRequest, on_text: OnText | None = None) -> ModelAnswer:
        client = await self._connection.client()
        import anthropic

        growing = AnthropicAnswer()
        async with AsyncExitStack() as stack:
            try:
                call = client.messages.with_streaming_response.create(**request_body(request, self._model))
                response = await stack.enter_async_context(call)
            except Exception as error:
                raise opening_failure(error, anthropic, KEY) from error
            await read_stream(response.http_response, growing, self._idle_s, on_text)
        return growing.finish(PROVIDER, self._model)

    async def aclose(self) -> None:
        await self._connection.aclose()


def request_body(request: ModelRequest, model: str) -> dict[str, Any]:
    """The body of POST /v1/messages. No temperature: current models refuse it."""
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": request.max_tokens,
        "messages": outgoing(request.messages, PROVIDER),
        "stream": True,
    }
    if request.system.strip():
        body["system"] = request.system
    if request.tools:
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
            for tool in request.tools
        ]
    return body
