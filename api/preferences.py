"""The request headers that say how to answer: ``Prefer`` (RFC 7240) and ``Idempotency-Key``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from starlette.requests import Request

from protocol.errors import InvalidRequest

MAX_WAIT_S = 600
MAX_KEY_CHARS = 255

_PRINTABLE = re.compile(rf"[\x20-\x7e]{{1,{MAX_KEY_CHARS}}}")
_MAX_PREFER_CHARS = 1000


@dataclass(frozen=True, slots=True)
class Preference:
    """How long a POST may wait, and the headers that tell which preferences were followed."""

    wait_s: float
    applied: dict[str, str]


def preference_of(request: Request, default_wait_s: float) -> Preference:
    """``wait=N`` waits N seconds (at most 600), ``respond-async`` alone not at all; both together wait N seconds.

    RFC 7240 wants preferences that are unknown or make no sense ignored, not refused.
    """
    wished = _preferences(", ".join(request.headers.getlist("prefer")))
    applied, wait_s = [], default_wait_s
    wait = wished.get("wait", "")
    if "respond-async" in wished:
        applied.append("respond-async")
        wait_s = 0.0
    if wait.isascii() and wait.isdigit() and len(wait) < 10:
        wait_s = min(int(wait), MAX_WAIT_S)
        applied.append(f"wait={wait_s}")
    return Preference(wait_s, {"preference-applied": ", ".join(applied)} if applied else {})


def _preferences(header: str) -> dict[str, str]:
    wished: dict[str, str] = {}
    if len(header) > _MAX_PREFER_CHARS:
        return wished
    for part in _split(header, ","):
        name, _, value = _split(part, ";")[0].partition("=")
        if name.strip():
            # "If any preference is specified more than once, only the first instance is to be considered."
            wished.setdefault(name.strip().lower(), value.strip().strip('"'))
    return wished


def _split(text: str, separator: str) -> list[str]:
    """Split at separators outside of quoted strings."""
    parts, quoted, escaped = [""], False, False
    for character in text:
        if character == separator and not quoted:
            parts.append("")
            continue
        parts[-1] += character
        if character == '"' and not escaped:
            quoted = not quoted
        escaped = character == "\\" and quoted and not escaped
    return parts


def idempotency_key_of(request: Request) -> str | None:
    """1 to 255 printable ASCII characters. Raises InvalidRequest for anything else, also for two of them."""
    keys = request.headers.getlist("idempotency-key")
    if not keys:
        return None
    if len(keys) > 1 or _PRINTABLE.fullmatch(keys[0]) is None:
        raise InvalidRequest(
            f"Idempotency-Key must be given once, with 1 to {MAX_KEY_CHARS} printable ASCII characters"
        )
    return keys[0]
