"""The provider's messages, projected from a session's records. Pure.

Valid by construction: every call of an answer gets exactly one result in the message behind it, whatever crashed,
was denied or cancelled; neighbouring messages of one role are merged; nothing empty is sent; names and ids that a
provider would refuse are made acceptable here and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from engine.fold import Call, State, Step, apply
from engine.models.contract import Block, Message
from engine.plan import NOT_RUN, STOPPED
from engine.records import Record

_ACCEPTABLE = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def states_of(records: Iterable[Record]) -> dict[str, State]:
    """The turns of a session log, in their order."""
    states: dict[str, State] = {}
    for record in records:
        turn = record["turn"]
        apply(states.setdefault(turn, State(turn)), record)
    return states


def messages_of(states: Iterable[State], before: Sequence[Message] = ()) -> list[Message]:
    """The conversation: ``before`` (projected earlier, left as it is) and then the turns of ``states``.
    Assistant messages say in ``provider`` who wrote them."""
    messages = list(before)
    seen = {b["id"] for m in before if m["role"] == "assistant" for b in m["content"] if b["type"] == "tool_use"}
    for state in states:
        for message in _turn(state, seen):
            _append(messages, message)
    return messages


def _turn(state: State, seen: set[str]) -> Iterable[Message]:
    if state.begun:
        yield {"role": "user", "content": [_text(state.message)]}
    notes = list(state.notes)
    for number, step in enumerate(state.steps, start=1):
        ids = [_use_id(call, state.turn, seen) for call in step.calls]
        if blocks := _answer(step, ids):
            yield {"role": "assistant", "content": blocks, "provider": step.provider}
        if step.calls:
            results = [_result(call, use_id) for call, use_id in zip(step.calls, ids, strict=True)]
            texts = [_note(text) for after, text in notes if after == number]
            yield {"role": "user", "content": [*results, *texts]}


def _append(messages: list[Message], message: Message) -> None:
    last = messages[-1] if messages else None
    if last and last["role"] == message["role"] == "user":
        messages[-1] = last | {"content": [*last["content"], *message["content"]]}
    elif last and last["role"] == message["role"]:
        # Two answers without a user's word between them: only when a turn ended before it could be answered.
        messages.append({"role": "user", "content": [_note("(no reply)")]})
        messages.append(message)
    else:
        messages.append(message)


def _answer(step: Step, ids: list[str]) -> list[Block]:
    """Blocks as received, but nothing behind the first call except calls, and no blank text."""
    said = [b for b in step.blocks if b.get("type") != "tool_use" and not _is_blank(b)]
    uses = [
        {"type": "tool_use", "id": use_id, "name": _name(call.tool), "input": call.args}
        for call, use_id in zip(step.calls, ids, strict=True)
    ]
    if not uses and all(b.get("type") != "text" for b in said):
        return []  # thinking alone is no message
    return [*said, *uses]


def _is_blank(block: Block) -> bool:
    return block.get("type") == "text" and not str(block.get("text") or "").strip()


def _result(call: Call, use_id: str) -> Block:
    if call.done:
        content, failed = call.content, call.status != "ok"
    else:
        content, failed = (STOPPED if call.started else NOT_RUN), True
    return {
        "type": "tool_result",
        "tool_use_id": use_id,
        "content": content if content.strip() else "(no output)",
        "is_error": failed,
    }


def _use_id(call: Call, turn: str, seen: set[str]) -> str:
    """The provider's id if it is acceptable and new; else one made from the call's place."""
    use_id = call.use_id
    if not _ACCEPTABLE.fullmatch(use_id) or use_id in seen:
        use_id = f"call_{turn[-24:]}_{call.path.replace('.', '_')}"
    seen.add(use_id)
    return use_id


def _name(tool: str) -> str:
    return tool if _ACCEPTABLE.fullmatch(tool) else (re.sub(r"[^a-zA-Z0-9_-]", "_", tool)[:64] or "unnamed")


def _note(text: str) -> dict[str, Any]:
    """The engine's own words beside a person's; providers strip the mark."""
    return _text(text) | {"note": True}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
