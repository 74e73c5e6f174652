"""Provider ``openai``: Chat Completions with streaming, for OpenAI and for any compatible ``baseUrl``.

The SDK does HTTP; what a stream means is decided in openai_answer.py, and what an error means in failures.py.
"""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from typing import Any, Final

from engine.models.blocks import outgoing
from engine.models.connection import Connection
from engine.models.contract import Block, Message, ModelAnswer, ModelRequest, OnText
from engine.models.failures import opening_failure
from engine.models.openai_answer import OpenAIAnswer
from engine.models.stream import read_stream

PROVIDER: Final = "openai"
KEY: Final = "OPENAI_API_KEY"
CONNECT_S: Final = 10.0
OWN_HOST: Final = "api.openai.com"


def open_client(base_url: str | None, idle_s: float) -> Any:
    """Blocking: imports the SDK. Key and, without ``base_url``, the address come from its own variables."""
    import httpx2
    import openai

    timeout = httpx2.Timeout(idle_s, connect=min(idle_s, CONNECT_S))
    client = openai.AsyncOpenAI(base_url=base_url, timeout=timeout, max_retries=0)
    # Resources are imported at first touch; here is the thread where that does not stop the event loop.
    client.chat.completions.with_streaming_response  # noqa: B018
    return client


class OpenAIModel:
    provider = PROVIDER

    def __init__(self, connection: Connection, model: str, idle_s: float) -> None:
        self._connection = connection
        self._model = model
        self._idle_s = idle_s

    async def answer(self, request: ModelRequest, on_text: OnText | None = None) -> ModelAnswer:
        client = await self._connection.client()
        import openai

        growing = OpenAIAnswer()
        async with AsyncExitStack() as stack:
            try:
                body = request_body(request, self._model, own=client.base_url.host == OWN_HOST)
                call = client.chat.completions.with_streaming_response.create(**body)
                response = await stack.enter_async_context(call)
            except Exception as error:
                raise opening_failure(error, openai, KEY) from error
            await read_stream(response.http_response, growing, self._idle_s, on_text)
        return growing.finish(PROVIDER, self._model)

    async def aclose(self) -> None:
        await self._connection.aclose()


def request_body(request: ModelRequest, model: str, *, own: bool) -> dict[str, Any]:
    """The body of POST /chat/completions. ``own``: OpenAI itself, whose newer models know only the newer limit."""
    body: dict[str, Any] = {
        "model": model,
        ("max_completion_tokens" if own else "max_tokens"): request.max_tokens,
        "messages": _chat_messages(request),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.input_schema,
                },
            }
            for tool in request.tools
        ]
    return body


def _chat_messages(request: ModelRequest) -> list[Message]:
    messages: list[Message] = []
    if request.system.strip():
        messages.append({"role": "system", "content": request.system})
    for message in outgoing(request.messages, PROVIDER):
        if message["role"] == "assistant":
            messages += _assistant_messages(message["content"])
        else:
            messages += _user_messages(message["content"])
    return messages


def _assistant_messages(blocks: list[Block]) -> list[Message]:
    """Reasoning is left out: Chat Completions at OpenAI refuses it."""
    message: Message = {"role": "assistant", "content": _joined_text(blocks) or None}
    calls = [_chat_call(block) for block in blocks if block["type"] == "tool_use"]
    if calls:
        message["tool_calls"] = calls
    return [message]


def _chat_call(block: Block) -> dict[str, Any]:
    arguments = json.dumps(block["input"], allow_nan=False)
    return {"id": block["id"], "type": "function", "function": {"name": block["name"], "arguments": arguments}}


def _user_messages(blocks: list[Block]) -> list[Message]:
    """Results are messages of their own here and must directly follow the calls, so they go before the text.

    This wire has no mark for a failed call: the result's own words have to say it.
    """
    messages: list[Message] = [
        {"role": "tool", "tool_call_id": block["tool_use_id"], "content": block["content"]}
        for block in blocks
        if block["type"] == "tool_result"
    ]
    if text := _joined_text(blocks):
        messages.append({"role": "user", "content": text})
    return messages


def _joined_text(blocks: list[Block]) -> str:
    return "\n\n".join(block["text"] for block in blocks if block["type"] == "text")
