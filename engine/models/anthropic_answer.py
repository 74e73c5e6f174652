"""Builds one answer from the raw events of the Messages API.

The SDK's own accumulator is not used: it hands over a normal-looking ``input`` for a call that was cut in the
middle. Here a call's arguments are the received text, parsed strictly once the answer is complete.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from engine.models.blocks import complete_without_reason, stop_by_content, tool_call
from engine.models.contract import Block, ModelAnswer, Stop, Usage
from engine.models.failures import event_failure
from engine.models.text import Pieces, encodable, repaired
from protocol.errors import ModelCut, ModelTooLong

STOPS: Final[Mapping[str, Stop]] = {
    "end_turn": "end_turn",
    "stop_sequence": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "refusal": "refusal",
    "pause_turn": "pause",
}


class AnthropicAnswer:
    """Grows by ``feed``; ``finish`` gives the answer or says why there is none."""

    def __init__(self) -> None:
        self.ended = False
        self._blocks: dict[int, _GrowingBlock] = {}
        self._stop: str | None = None
        self._model: str | None = None
        self._usage: dict[str, int] = {}

    def feed(self, event: dict[str, Any]) -> str | None:
        match event["type"]:
            case "message_start":
                self._model = event["message"].get("model")
                self._count(event["message"].get("usage"))
            case "content_block_start":
                self._blocks[event["index"]] = block = _GrowingBlock(event["content_block"])
                return block.first_text()
            case "content_block_delta":
                return self._blocks[event["index"]].add(event["delta"])
            case "message_delta":
                self._stop = event["delta"].get("stop_reason") or self._stop
                self._count(event.get("usage"))
            case "message_stop":
                self.ended = True
            case "error":
                raise event_failure(event)
            case "ping":
                return None
        return ""

    def done(self) -> None:
        """Some compatible servers close with ``[DONE]`` as well; this wire's end mark is message_stop."""

    def finish(self, provider: str, model: str) -> ModelAnswer:
        """Raises ModelCut without a proper end, ModelTooLong when the context window ended the answer."""
        if not self.ended:
            raise ModelCut("the model's stream ended without message_stop")
        if self._stop == "model_context_window_exceeded":
            raise ModelTooLong("the model's context window was full before the answer was complete")
        grown = [self._blocks[index].finished() for index in sorted(self._blocks)]
        blocks = [block for block in grown if block is not None]
        if self._stop is None and not complete_without_reason(blocks):
            raise ModelCut("the model's stream ended without a stop reason")
        stop = STOPS.get(self._stop or "", "other")
        usage = self._usage_total()
        return ModelAnswer(blocks, stop_by_content(stop, blocks), usage, provider, self._model or model)

    def _count(self, usage: object) -> None:
        """Counts are cumulative, so a later one replaces an earlier one; a missing or null one says nothing."""
        if isinstance(usage, dict):
            self._usage.update({name: count for name, count in usage.items() if isinstance(count, int)})

    def _usage_total(self) -> Usage:
        """This wire counts cached input apart; the neutral ``input_tokens`` is all of it."""
        cached = self._usage.get("cache_read_input_tokens", 0)
        written = self._usage.get("cache_creation_input_tokens", 0)
        fresh = self._usage.get("input_tokens", 0)
        return Usage(fresh + cached + written, self._usage.get("output_tokens", 0), cached)


class _GrowingBlock:
    def __init__(self, start: dict[str, Any]) -> None:
        self._start = start
        self._kind: str = start["type"]
        self._grown: list[str] = []
        self._signature: str | None = start.get("signature")
        self._pieces = Pieces()

    def first_text(self) -> str:
        if self._kind != "text" or not self._start.get("text"):
            return ""
        self._grown.append(self._start["text"])
        return self._pieces.add(self._start["text"])

    def add(self, delta: dict[str, Any]) -> str:
        match delta["type"]:
            case "text_delta":
                self._grown.append(delta["text"])
                return self._pieces.add(delta["text"])
            case "thinking_delta":
                self._grown.append(delta["thinking"])
            case "signature_delta":
                self._signature = delta["signature"]
            case "input_json_delta":
                self._grown.append(delta["partial_json"])
        return ""

    def finished(self) -> Block | None:
        """None for blocks of server-side tools, which are never asked for."""
        match self._kind:
            case "text":
                return {"type": "text", "text": repaired("".join(self._grown))}
            case "tool_use":
                return tool_call(self._start.get("id"), self._start.get("name"), self._arguments())
            case "thinking":
                return _signed(
                    self._start
                    | {"thinking": self._start.get("thinking", "") + "".join(self._grown)}
                    | ({"signature": self._signature} if self._signature is not None else {})
                )
            case "redacted_thinking":
                return _signed(self._start)
        return None

    def _arguments(self) -> str:
        """The text of the arguments; a server that does not stream them gives them whole at the start."""
        text = "".join(self._grown)
        given = self._start.get("input", {})
        return text if text.strip() or given == {} else json.dumps(given)


def _signed(block: Block) -> Block:
    # Signed text must go back byte for byte, so what cannot be encoded cannot be repaired either.
    if not all(encodable(value) for value in block.values() if isinstance(value, str)):
        raise ModelCut("the model's thinking is not valid Unicode")
    return block
