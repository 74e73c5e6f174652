"""The context budget: an estimate of what a request will cost in tokens, and the event that says so. Pure.

Four characters count as one token; the soft threshold nudges the model once a turn to come to an end.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.drafts import Draft
from engine.models.contract import Message
from engine.records import context_noted
from protocol.json_text import dumps

SOFT_THRESHOLD = 0.8
NUDGE = "The conversation is close to its context budget. Answer with what you have, and call few further tools."


def tokens_of(messages: Iterable[Message], system: str) -> int:
    """Estimated tokens: characters of everything sent, divided by four."""
    characters = len(system)
    for message in messages:
        for block in message["content"]:
            text = block.get("text") or block.get("content")
            characters += len(text) if isinstance(text, str) else len(dumps(block))
    return (characters + 3) // 4


def check(used: int, budget: int, at: str, nudged: bool) -> Draft:
    """The `budget:check` that opens a model call; a nudge is also put on record, since the model sees it."""
    ratio = round(used / budget, 6)
    event = {"type": "budget:check", "action": "ok", "usedTokens": used, "budgetTokens": budget, "ratio": ratio}
    if ratio >= 1:
        return Draft(events=[event | {"action": "over_hard_limit"}])
    if ratio >= SOFT_THRESHOLD and at != "1" and not nudged:
        nudge = {"role": "user", "content": NUDGE}
        return Draft([context_noted("nudge", NUDGE, at)], [event | {"action": "nudge", "nudge": nudge}])
    return Draft(events=[event])
