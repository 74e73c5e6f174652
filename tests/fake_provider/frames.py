"""Script entries as the bytes of either wire, streamed or whole."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from typing import Any

from tests.fake_provider.script import Entry

Block = dict[str, Any]

_FINISH = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}


def raw_pieces(entry: Entry) -> Iterator[bytes | float]:
    """Bytes to send, and seconds to wait between them."""
    for piece in entry["raw_sse"]:
        if isinstance(piece, dict):
            yield float(piece["pause"]) if "pause" in piece else base64.b64decode(piece["b64"])
        else:
            yield piece if isinstance(piece, bytes) else piece.encode()


def blocks_of(entry: Entry) -> list[Block]:
    """The neutral blocks of an entry, for the rules about what was sent."""
    if "blocks" in entry:
        return list(entry["blocks"])
    message = entry.get("openai") or {}
    blocks: list[Block] = []
    if message.get("reasoning_content"):
        blocks.append({"type": "thinking", "thinking": message["reasoning_content"]})
    blocks += [{"type": "tool_use", "id": call.get("id")} for call in message.get("tool_calls") or []]
    return blocks


def anthropic_stream(entry: Entry, model: str) -> Iterator[bytes]:
    usage = _usage(entry)
    start: dict[str, Any] = {"id": "msg_fake", "type": "message", "role": "assistant", "model": model, "content": []}
    start |= {"stop_reason": None, "stop_sequence": None, "usage": usage | {"output_tokens": 1}}
    yield _event({"type": "message_start", "message": start})
    yield _event({"type": "ping"})
    for index, block in enumerate(entry["blocks"]):
        opening, deltas = _opened(block)
        yield _event({"type": "content_block_start", "index": index, "content_block": opening})
        for delta in deltas:
            yield _event({"type": "content_block_delta", "index": index, "delta": delta})
        yield _event({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": entry.get("stop"), "stop_sequence": None}
    yield _event({"type": "message_delta", "delta": stop, "usage": {"output_tokens": usage["output_tokens"]}})
    yield _event({"type": "message_stop"})


def anthropic_message(entry: Entry, model: str) -> dict[str, Any]:
    content = [{k: v for k, v in block.items() if k != "input_raw"} for block in entry["blocks"]]
    message = {"id": "msg_fake", "type": "message", "role": "assistant", "model": model, "content": content}
    return message | {"stop_reason": entry.get("stop"), "stop_sequence": None, "usage": _usage(entry)}


def chat_stream(entry: Entry, model: str, with_usage: bool) -> Iterator[bytes]:
    message = _chat(entry)
    if message.get("choices") == []:
        yield _chunk(model, choices=[])
    else:
        yield _chunk(model, {"role": "assistant", "content": None if message.get("content") is None else ""})
        for delta in _chat_deltas(message):
            yield _chunk(model, delta)
        yield _chunk(model, {}, finish=_finish(entry))
    if with_usage:
        yield _chunk(model, choices=[], usage=_chat_usage(entry))
    yield b"data: [DONE]\n\n"


def chat_completion(entry: Entry, model: str) -> dict[str, Any]:
    message = _chat(entry)
    choices: list[dict[str, Any]] = []
    if message.get("choices") != []:
        choices = [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": _finish(entry)}]
    whole = {"id": "chatcmpl-fake", "object": "chat.completion", "created": 1, "model": model, "choices": choices}
    return whole | {"usage": _chat_usage(entry)}


def _opened(block: Block) -> tuple[Block, Iterable[Block]]:
    match block["type"]:
        case "text":
            return block | {"text": ""}, [{"type": "text_delta", "text": part} for part in _parts(block["text"])]
        case "thinking":
            parts = [{"type": "thinking_delta", "thinking": part} for part in _parts(block["thinking"])]
            signature = {"type": "signature_delta", "signature": block["signature"]}
            return block | {"thinking": "", "signature": ""}, [*parts, signature]
        case "tool_use":
            raw = _arguments(block)
            deltas = [{"type": "input_json_delta", "partial_json": part} for part in ["", *_parts(raw)]]
            return {"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}}, deltas
    return block, []


def _chat(entry: Entry) -> dict[str, Any]:
    if "openai" in entry:
        return dict(entry["openai"])
    blocks: list[Block] = entry["blocks"]
    message: dict[str, Any] = {"content": "".join(block["text"] for block in blocks if block["type"] == "text") or None}
    if reasoning := "".join(block["thinking"] for block in blocks if block["type"] == "thinking"):
        message["reasoning_content"] = reasoning
    uses = [block for block in blocks if block["type"] == "tool_use"]
    if uses:
        message["tool_calls"] = [_chat_call(block) for block in uses]
    return message


def _chat_call(block: Block) -> dict[str, Any]:
    raw = _arguments(block)
    return {"id": block["id"], "type": "function", "function": {"name": block["name"], "arguments": raw}}


def _chat_deltas(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for field in ("reasoning_content", "content"):
        for part in _parts(message.get(field) or ""):
            yield {field: part}
    for index, call in enumerate(message.get("tool_calls") or []):
        function = call["function"]
        opening = {"name": function.get("name"), "arguments": "" if function.get("arguments") else None}
        yield {"tool_calls": [{"index": index, **call, "function": opening}]}
        for part in _parts(function.get("arguments") or ""):
            yield {"tool_calls": [{"index": index, "function": {"arguments": part}}]}


def _arguments(block: Block) -> str:
    return str(block["input_raw"]) if "input_raw" in block else json.dumps(block["input"])


def _finish(entry: Entry) -> str | None:
    if "finish" in entry:
        return None if entry["finish"] is None else str(entry["finish"])
    stop = entry.get("stop")
    return None if stop is None else _FINISH.get(stop, stop)


def _usage(entry: Entry) -> dict[str, int]:
    return {"input_tokens": 10, "output_tokens": 5} | dict(entry.get("usage", {}))


def _chat_usage(entry: Entry) -> dict[str, Any]:
    usage = _usage(entry)
    total = usage["input_tokens"] + usage["output_tokens"]
    return {
        "prompt_tokens": usage["input_tokens"],
        "completion_tokens": usage["output_tokens"],
        "total_tokens": total,
        "prompt_tokens_details": {"cached_tokens": usage.get("cache_read_input_tokens", 0)},
    }


def _parts(text: str) -> list[str]:
    """In two parts, so that whoever reads them has to join."""
    middle = (len(text) + 1) // 2
    return [part for part in (text[:middle], text[middle:]) if part]


def _event(data: dict[str, Any]) -> bytes:
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()


def _chunk(
    model: str,
    delta: dict[str, Any] | None = None,
    finish: str | None = None,
    choices: list[Any] | None = None,
    usage: dict[str, Any] | None = None,
) -> bytes:
    if choices is None:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    data = {"id": "chatcmpl-fake", "object": "chat.completion.chunk", "created": 1, "model": model}
    return f"data: {json.dumps(data | {'choices': choices, 'usage': usage})}\n\n".encode()
