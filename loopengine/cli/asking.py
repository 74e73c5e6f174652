"""Asking the person at the terminal to decide an open item. Only called where there is a terminal; decides nothing."""

from __future__ import annotations

import asyncio
import getpass
import os
import sys
from typing import Any

from engine.runtime import Decision
from engine.views import OpenItem
from loopengine.cli.narration import arguments
from loopengine.cli.streams import say, visible


def is_at_terminal() -> bool:
    """Somebody can read the question (stderr) and answer it (stdin)."""
    return os.isatty(0) and os.isatty(2)


def user_name() -> str:
    """Who decides, for the audit trail."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


async def ask(item: OpenItem) -> Decision | None:
    """The person's decision; None: later."""
    return await (_ask_approval(item) if item.kind == "approval" else _ask_question(item))


async def _ask_approval(item: OpenItem) -> Decision | None:
    say(*approval_card(item))
    while (answer := await _line("[a]pprove, [d]eny or [l]ater? ")) is not None:
        match answer.lower():
            case "a" | "approve":
                return Decision("approve", user_name(), item.card.get("digest"))
            case "d" | "deny":
                reason = await _line("Reason for the agent (may be empty): ")
                return Decision("deny", user_name(), item.card.get("digest"), reason or None)
            case "l" | "later":
                return None
            case _:
                say("Type a to let it run, d to refuse it, l (or Ctrl-D) to decide later.")
    return None


async def _ask_question(item: OpenItem) -> Decision | None:
    say(*question_card(item))
    options: list[str] = item.card.get("options") or []
    prompt = "Number or text (empty: later): " if options else "Answer (empty: later): "
    answer = await _line(prompt)
    if not answer:
        return None
    if answer.isascii() and answer.isdigit() and 1 <= int(answer) <= len(options):
        answer = options[int(answer) - 1]
    return Decision("answer", user_name(), text=answer)


def approval_card(item: OpenItem) -> list[str]:
    card: dict[str, Any] = item.card
    scope = card["scope"]
    lines = [
        "",
        f"{card['tool']} waits for approval ({item.id})",
        *(f"  {name}: {arguments(value)}" for name, value in card["args"].items()),
        f"  why: {card['reason']}",
        f"  for: tenant {scope['tenant']}, environment {scope['environment']}, agent {scope['agent']}",
    ]
    return [*lines, f"  until: {card['expiresAt']}"] if card.get("expiresAt") else lines


def question_card(item: OpenItem) -> list[str]:
    options: list[str] = item.card.get("options") or []
    return [
        "",
        f"{item.agent} asks ({item.id})",
        f"  {item.card['question']}",
        *(f"  {number}. {option}" for number, option in enumerate(options, 1)),
    ]


async def _line(prompt: str) -> str | None:
    """A line typed by the person; None at its end (Ctrl-D). In the event loop: a reading thread could not be ended."""
    sys.stderr.write(visible(prompt))
    sys.stderr.flush()
    loop = asyncio.get_running_loop()
    typed = asyncio.Event()
    data = b""
    while not data.endswith(b"\n"):
        typed.clear()
        loop.add_reader(0, typed.set)
        try:
            await typed.wait()
        finally:
            loop.remove_reader(0)
        try:
            more = os.read(0, 65536)
        except OSError:
            more = b""  # the terminal went away
        if not more:
            say("")
            return None
        data += more
    return data.decode(sys.stdin.encoding if sys.stdin else "utf-8", "replace").strip()
