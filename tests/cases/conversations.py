"""What the fake model says in many sessions at once: a script for each message, followed by the place in the history.

The place is read from the request, not counted: a repeated model call gets the same answer again, as a real model
would give, and sessions never take each other's entries. Only where a place holds a list of entries, calls for it get
one after the other, the last one again and again.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.cases.ledger import says
from tests.fake_provider.script import Entry, latest_text, refusal

Body = dict[str, Any]
Scripts = Mapping[str, Sequence[Entry | list[Entry]]]
HELLO = says("Hello to you.")
HELLO_SAID = r"(\A|\n)hello\Z"  # also behind a message that was never answered: one wire joins their texts


class Conversations:
    """A chooser for FakeProvider: by regular expression on the user's latest text, then by the answers since."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts: Scripts = {HELLO_SAID: [HELLO], **scripts}
        self._calls: Counter[tuple[str, int]] = Counter()
        self.missing: list[str] = []
        """Calls beyond the end of their script, by the user's text. A case that is right has none."""

    def __call__(self, body: Body, _: int) -> Entry:
        said, place = latest_text(body), answers_since(body)
        for pattern, entries in self._scripts.items():
            if re.search(pattern, said) and place < len(entries):
                entry, calls = entries[place], self._calls[pattern, place]
                self._calls[pattern, place] += 1
                return entry[min(calls, len(entry) - 1)] if isinstance(entry, list) else entry
        self.missing.append(said)
        return refusal(400, "invalid_request_error", "the script has no more entries")


def answers_since(body: Body) -> int:
    """How many answers of the model follow the user's latest text."""
    messages = body["messages"]
    last = max(number for number, message in enumerate(messages) if _has_text(message))
    return sum(1 for message in messages[last:] if message["role"] == "assistant")


def results_in(body: Body) -> list[tuple[str, str, bool]]:
    """All tool results of a request in order: id of the call, text, whether it says error (Anthropic's wire only)."""
    found: list[tuple[str, str, bool]] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            found.append((message["tool_call_id"], _text_of(message["content"]), False))
        elif message["role"] == "user" and isinstance(message["content"], list):
            found += [
                (block["tool_use_id"], _text_of(block["content"]), bool(block.get("is_error")))
                for block in message["content"]
                if block["type"] == "tool_result"
            ]
    return found


def requests_about(requests: Iterable[Body], text: str) -> list[Body]:
    """Requests whose latest user text is exactly ``text``: the model calls of one turn."""
    return [body for body in requests if latest_text(body) == text]


def _has_text(message: dict[str, Any]) -> bool:
    content = message["content"]
    if message["role"] != "user":
        return False
    return isinstance(content, str) or any(block["type"] == "text" for block in content)


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(block["text"] if block["type"] == "text" else json.dumps(block) for block in content)
