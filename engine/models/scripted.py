"""Provider ``scripted``: answers from a file, for demos, tests and CI, without a key and without a network.

It keeps no state: the answer follows from the request alone, so a turn that crashed and was resumed elsewhere
gets the same answer again.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

from engine.models.contract import Block, Message, ModelAnswer, ModelRequest, OnText, Usage
from engine.models.script_file import REFERENCE, Conversation, Step
from protocol.errors import ModelRefused

PROVIDER: Final = "scripted"
NO_MORE: Final = "The script has no more steps for this message."

_PIECE: Final = re.compile(r"\S+\s*|\s+")
_PIECE_CHARS: Final = 24


class ScriptedModel:
    """Chooses the conversation by the user's latest message, and the step by the answers given since then.

    Text that the engine adds by itself carries ``"note": True`` in its block and does not count as the user's.
    """

    provider = PROVIDER

    def __init__(self, conversations: tuple[Conversation, ...], model: str = PROVIDER) -> None:
        self._conversations = conversations
        self._model = model

    async def answer(self, request: ModelRequest, on_text: OnText | None = None) -> ModelAnswer:
        """Raises ModelRefused when no conversation of the script matches."""
        place = _Place(request.messages)
        step, values = self._step(place)
        if step.sleep_s:
            await asyncio.sleep(step.sleep_s)
        text = _filled(step.text, values)
        if on_text is not None:
            await _say(text, on_text)
        blocks: list[Block] = [{"type": "text", "text": text}] if text else []
        for position, call in enumerate(step.calls):
            id_ = f"call_{place.message}_{place.step}_{position}"
            blocks.append({"type": "tool_use", "id": id_, "name": call.tool, "input": _filled(call.args, values)})
        stop = step.stop or ("tool_use" if step.calls else "end_turn")
        usage = Usage(_tokens(request.system, *map(_text_of, request.messages)), _tokens(str(blocks)))
        return ModelAnswer(blocks, stop, usage, PROVIDER, self._model)

    async def aclose(self) -> None:
        """Nothing is open."""

    def _step(self, place: _Place) -> tuple[Step, dict[str, str]]:
        for conversation in self._conversations:
            if conversation.match is None:
                return _step_of(conversation, place.step), {}
            if found := conversation.match.search(place.text):
                values = {name: value or "" for name, value in found.groupdict().items()}
                return _step_of(conversation, place.step), values
        raise ModelRefused("the script has no conversation for this message: add one without `match` at its end")


class _Place:
    """Where in a conversation the request stands: the user's latest text, and the answers after it."""

    def __init__(self, messages: list[Message]) -> None:
        self.text = ""
        self.message = 0
        """How many messages with the user's text there are; keeps call ids of different messages apart."""
        self.step = 0
        for message in messages:
            if message["role"] == "assistant":
                self.step += 1
            elif said := [block for block in message["content"] if _is_said(block)]:
                self.text, self.step = said[-1]["text"], 0
                self.message += 1


def _is_said(block: Block) -> bool:
    return block["type"] == "text" and not block.get("note")


def _step_of(conversation: Conversation, index: int) -> Step:
    """After the last step its last text is said again, without calls: a script can never make a turn loop."""
    if index < len(conversation.steps):
        return conversation.steps[index]
    texts = [step.text for step in conversation.steps if step.text.strip()]
    return Step(texts[-1] if texts else NO_MORE, (), 0.0, None)


def _filled(value: Any, values: dict[str, str]) -> Any:
    if isinstance(value, str):
        return REFERENCE.sub(lambda found: values[found[1]], value)
    if isinstance(value, dict):
        return {key: _filled(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, values) for item in value]
    return value


async def _say(text: str, on_text: OnText) -> None:
    """In pieces of a few words, as a real model would, giving other turns their chance in between."""
    piece = ""
    for word in _PIECE.findall(text):
        piece += word
        if len(piece) >= _PIECE_CHARS:
            on_text(piece)
            piece = ""
            await asyncio.sleep(0)
    if piece:
        on_text(piece)


def _text_of(message: Message) -> str:
    return "".join(str(block.get("text") or block.get("content") or "") for block in message["content"])


def _tokens(*texts: str) -> int:
    """The usual estimate of four characters a token: a script has no tokeniser."""
    return -(-sum(map(len, texts)) // 4)
