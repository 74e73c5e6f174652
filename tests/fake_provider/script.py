"""What the fake answers: script entries, and which of them comes next.

An entry is one of

    {"blocks": [...], "stop": "..."}             neutral blocks, on either wire; a tool_use block may carry "input_raw"
    {"openai": {message}, "finish": "..."}       the message of a chat completion; {"choices": []} for none at all
    {"status": 529, "headers": {}, "body": {}}   an error
    {"raw_sse": ["..."], "then": "close|hang|reset"}    bytes as they are; {"b64": "..."} for what is no text,
                                                        {"pause": seconds} between them

each with an optional "sleep" in seconds before it, "model" and "usage": {"input_tokens", "output_tokens"}.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Entry = dict[str, Any]
Chooser = Callable[[dict[str, Any], int], Entry]
Script = list[Entry] | dict[str, list[Entry]] | Chooser
"""In order; or by regular expression on the user's latest text, each list in its own order; or a function."""


def text(words: str) -> Entry:
    return {"blocks": [{"type": "text", "text": words}], "stop": "end_turn"}


def calls(*made: tuple[str, str, dict[str, Any]], say: str = "") -> Entry:
    """An answer with calls, each ``(id, tool, input)``."""
    said = [{"type": "text", "text": say}] if say else []
    uses = [{"type": "tool_use", "id": id_, "name": name, "input": args} for id_, name, args in made]
    return {"blocks": [*said, *uses], "stop": "tool_use"}


def refusal(status: int, kind: str, message: str, **headers: str) -> Entry:
    """An error; header names are written with underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return {"status": status, "headers": named, "body": {"type": "error", "error": {"type": kind, "message": message}}}


class Queue:
    """Hands out entries. ``otherwise`` answers when the script has no more; without it the call is refused."""

    def __init__(self, script: Script, otherwise: Entry | None) -> None:
        self._chooser = script if callable(script) else None
        self._lists: dict[str, list[Entry]] = {}
        if isinstance(script, dict):
            self._lists = {pattern: list(entries) for pattern, entries in script.items()}
        elif isinstance(script, list):
            self._lists = {"": list(script)}
        self._otherwise = otherwise
        self._taken = 0

    def next(self, body: dict[str, Any]) -> Entry | None:
        index = self._taken
        self._taken += 1
        if self._chooser is not None:
            return self._chooser(body, index)
        said = latest_text(body)
        for pattern, entries in self._lists.items():
            if entries and re.search(pattern, said):
                return entries.pop(0)
        return self._otherwise

    def add(self, *entries: Entry) -> None:
        self._lists.setdefault("", []).extend(entries)


def latest_text(body: dict[str, Any]) -> str:
    """The user's latest text, on either wire."""
    for message in reversed(body.get("messages", [])):
        if message.get("role") != "user":
            continue
        content = message["content"]
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        for block in reversed(blocks):
            if block.get("type") == "text":
                return str(block["text"])
    return ""
