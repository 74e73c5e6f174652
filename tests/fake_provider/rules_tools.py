"""Rules that both wires share: tool names and the pairing of calls with results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def problem_with_names(names: Iterable[Any]) -> str | None:
    seen: set[Any] = set()
    for name in names:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            return f"tools: {name!r} does not match {NAME.pattern}"
        if name in seen:
            return f"tools: {name!r} is there twice"
        seen.add(name)
    return None


def problem_with_pairs(where: str, calls: Sequence[str], results: Sequence[str]) -> str | None:
    """``results`` are those of the message (or run of messages) directly behind the answer with ``calls``."""
    for id_ in calls:
        if results.count(id_) != 1:
            return f"{where}: the call {id_!r} has {results.count(id_)} results directly behind it, expected 1"
    for id_ in results:
        if id_ not in calls:
            return f"{where}: the result {id_!r} has no call directly before it"
    return None


def is_blank(value: Any) -> bool:
    return not isinstance(value, str) or not value.strip()


def unknown_key(where: str, found: dict[str, Any], known: set[str]) -> str | None:
    extra = sorted(found.keys() - known)
    return f"{where}: {extra[0]}: extra inputs are not permitted" if extra else None
