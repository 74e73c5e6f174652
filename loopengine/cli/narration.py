"""Events as one line of talk each, for a person who watches a turn. The answer itself is not talk and not here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

_LONGEST_SUMMARY = 160

Event = Mapping[str, Any]


def arguments(args: Any) -> str:
    return json.dumps(args, ensure_ascii=False)


class Narrator:
    """Tells the events of one turn, in their order."""

    def __init__(self) -> None:
        self._started: set[str] = set()

    def tell(self, event: Event) -> str | None:
        """None: nothing that a watcher needs to see."""
        if event["type"] == "tool:started":
            self._started.add(event["id"])
        if event["type"] == "tool:result" and event["id"] not in self._started:
            return _not_run(event)
        tell = _TELLING.get(event["type"])
        return tell(event) if tell else None


def _budget(event: Event) -> str | None:
    if event["action"] == "ok":
        return None
    return f"budget   {event['usedTokens']} of {event['budgetTokens']} tokens used ({event['action']})"


def _started(event: Event) -> str:
    return f"tool     {event['id']} {event['tool']} {arguments(event['args'])}"


def _result(event: Event) -> str:
    return f"tool     {event['id']} {event['tool']}: {event['statusText']}"


def _not_run(event: Event) -> str:
    """Of an error before the call ran only this event knows what it is; other calls' reasons the gate has told."""
    detail = event.get("detailText")
    return f"{_result(event)} {detail}" if detail and event["statusText"] == "Error." else _result(event)


def _summary(event: Event) -> str:
    text = " ".join(event["summary"].split())
    return f"output   {text[:_LONGEST_SUMMARY]}{'...' if len(text) > _LONGEST_SUMMARY else ''}"


def _approval(event: Event) -> str:
    return f"approval {event['tool']} {arguments(event['args'])} waits for a person: {event['reason']}"


def _done(event: Event) -> str | None:
    return f"ended    {event['stopReason']}" if event.get("stopReason") else None


_TELLING: dict[str, Callable[[Event], str | None]] = {
    "session": lambda event: f"session  {event['sessionId']} turn {event.get('turnId')}",
    "budget:check": _budget,
    "prompt:compaction": lambda event: f"budget   conversation shortened, {event['from']} to {event['to']} messages",
    "assistant:text": lambda event: f"agent    {event['text']}",
    "actauth:decision": lambda event: f"gate     {event['tool']}: {event['decision']} ({event['reason']})",
    "tool:started": _started,
    "toollane:result": _summary,
    "tool:result": _result,
    "skill:loaded": lambda event: f"skill    {event['skill']}",
    "loop:skipped": lambda event: f"gate     {event['name']} skipped: {', '.join(event['deniedTools'])} was denied",
    "loop:max_turns": lambda event: f"agent    no answer after {event['maxTurns']} model calls",
    "loop:denied": lambda event: f"gate     denied by a person: {', '.join(event['deniedTools'])}",
    "turn:resumed": lambda event: f"resumed  attempt {event['attempt']}: {event['reason']}",
    "approval:pending": _approval,
    "question:pending": lambda event: f"question {event['question']}",
    "error": lambda event: f"error    {event['error']}",
    "done": _done,
}
