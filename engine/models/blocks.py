"""Neutral blocks on their way in and out, for every wire alike.

Inward: calls with strictly parsed arguments, and a stop reason that follows the content. Outward: only fields
that wires know, and no thinking of another provider. That the history itself is valid is the caller's part.
"""

from __future__ import annotations

from typing import Final

from engine.models.contract import Block, Message, Stop
from engine.models.text import parse_arguments, repaired

THINKING: Final = frozenset({"thinking", "redacted_thinking"})


def tool_call(id_: object, name: object, raw_arguments: str) -> Block:
    """A tool_use block from what came over the wire; ``input_raw`` is there when ``input`` could not be read.

    A missing id or name is "", which no tool has and which the session's projection replaces.
    """
    arguments, raw = parse_arguments(raw_arguments)
    block: Block = {
        "type": "tool_use",
        "id": repaired(id_) if isinstance(id_, str) else "",
        "name": repaired(name) if isinstance(name, str) else "",
        "input": arguments,
    }
    if raw is not None:
        block["input_raw"] = raw
    return block


def stop_by_content(stop: Stop, blocks: list[Block]) -> Stop:
    """Believe the content: calls marked as a plain stop are calls, and without a call nothing waits for tools."""
    has_calls = any(block["type"] == "tool_use" for block in blocks)
    if has_calls and stop in ("end_turn", "other"):
        return "tool_use"
    if not has_calls and stop == "tool_use":
        return "end_turn"
    return stop


def complete_without_reason(blocks: list[Block]) -> bool:
    """Whether an answer with an end mark but without a stop reason may count.

    Some compatible servers leave the reason out; proxies also append an end mark to an answer that was cut. Calls
    whose arguments are whole objects, or nothing at all, cannot be such a cut; text could be.
    """
    calls = [block for block in blocks if block["type"] == "tool_use"]
    return not blocks or (bool(calls) and all("input_raw" not in call for call in calls))


def outgoing(messages: list[Message], provider: str) -> list[Message]:
    """The messages as ``provider`` takes them: no marks of ours, no thinking that another provider wrote."""
    return [
        {"role": message["role"], "content": _content(message, message.get("provider", provider) == provider)}
        for message in messages
    ]


def _content(message: Message, keep_thinking: bool) -> list[Block]:
    content: list[Block] = []
    for block in message["content"]:
        match block["type"]:
            case "text":
                content.append({"type": "text", "text": block["text"]})
            case "tool_use":
                fields = ("type", "id", "name", "input")
                content.append({name: block[name] for name in fields})
            case "tool_result":
                fields = ("type", "tool_use_id", "content", "is_error")
                content.append({name: block[name] for name in fields if name in block})
            case kind if kind in THINKING and keep_thinking:
                content.append(block)
    return content
