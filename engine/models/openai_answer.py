"""Builds one answer from the chunks of a Chat Completions stream, as OpenAI and compatible servers send them.

Compatible servers leave out indexes, ids and arguments, or send null for them; none of that loses a call here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from engine.models.blocks import complete_without_reason, stop_by_content, tool_call
from engine.models.contract import Block, ModelAnswer, Stop, Usage
from engine.models.failures import event_failure
from engine.models.text import Pieces, repaired
from protocol.errors import ModelCut

STOPS: Final[Mapping[str, Stop]] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}


class OpenAIAnswer:
    """Grows by ``feed``; ``finish`` gives the answer or says why there is none."""

    def __init__(self) -> None:
        self.ended = False
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_GrowingCall] = []
        self._finish: str | None = None
        self._refused = False
        self._model: str | None = None
        self._usage = Usage()
        self._pieces = Pieces()

    def feed(self, event: dict[str, Any]) -> str:
        if event.get("error"):
            raise event_failure(event)
        self._model = event.get("model") or self._model
        if event.get("usage"):
            self._usage = _usage(event["usage"])
        text = ""
        for choice in event.get("choices") or []:
            self._finish = choice.get("finish_reason") or self._finish
            text += self._grow(choice.get("delta") or {})
        return text

    def done(self) -> None:
        self.ended = True

    def finish(self, provider: str, model: str) -> ModelAnswer:
        """Raises ModelCut unless the stream gave a finish reason, or an end mark that leaves no doubt."""
        blocks = self._blocks()
        if self._finish is None and not (self.ended and complete_without_reason(blocks)):
            raise ModelCut("the model's stream ended without a finish reason")
        stop = "refusal" if self._refused else STOPS.get(self._finish or "", "other")
        return ModelAnswer(blocks, stop_by_content(stop, blocks), self._usage, provider, self._model or model)

    def _grow(self, delta: dict[str, Any]) -> str:
        if reasoning := delta.get("reasoning_content"):
            self._reasoning.append(reasoning)
        for part in delta.get("tool_calls") or []:
            self._call_of(part).add(part)
        text = delta.get("content") or ""
        if refusal := delta.get("refusal"):
            self._refused = True
            text += refusal
        if not text:
            return ""
        self._text.append(text)
        return self._pieces.add(text)

    def _call_of(self, part: dict[str, Any]) -> _GrowingCall:
        """The call a part belongs to: by index; without one, a new id begins a call and others go to the last."""
        index, id_ = part.get("index"), part.get("id")
        if index is None:
            same = [call for call in self._calls[-1:] if not id_ or id_ == call.id]
        else:
            same = [call for call in self._calls if call.index == index]
            # Some servers number every call 0: another id under the same number is another call.
            if same and id_ and same[-1].id and id_ != same[-1].id:
                same = []
        if not same:
            self._calls.append(_GrowingCall(index))
            return self._calls[-1]
        return same[-1]

    def _blocks(self) -> list[Block]:
        blocks: list[Block] = []
        if self._reasoning:
            blocks.append({"type": "thinking", "thinking": repaired("".join(self._reasoning))})
        if self._text:
            blocks.append({"type": "text", "text": repaired("".join(self._text))})
        blocks += [tool_call(call.id, call.name, "".join(call.arguments)) for call in self._calls]
        return blocks


@dataclass(slots=True)
class _GrowingCall:
    index: int | None
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)

    def add(self, part: dict[str, Any]) -> None:
        function = part.get("function") or {}
        self.id = self.id or part.get("id") or ""
        name = function.get("name") or ""
        # Repeated whole with every chunk by some servers, in pieces by none that are known.
        self.name = self.name or name
        if function.get("arguments"):
            self.arguments.append(function["arguments"])


def _usage(usage: dict[str, Any]) -> Usage:
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return Usage(usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0, cached)
