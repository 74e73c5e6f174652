"""Text as models send it, made fit for strict JSON: surrogate halves and tool arguments.

A lone half of a surrogate pair cannot be encoded as UTF-8, and one of them in a session would break every
later request. It becomes U+FFFD here, at the edge. Signed blocks are never touched.
"""

from __future__ import annotations

import re
from typing import Any, Final

from protocol.errors import MalformedRequest
from protocol.json_text import loads_strict

_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


def repaired(text: str) -> str:
    """The same text with surrogate pairs joined and lone halves replaced by U+FFFD."""
    if encodable(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Pieces:
    """Repairs streamed text piece by piece: a first half at the end of a piece waits for its second half."""

    def __init__(self) -> None:
        self._half = ""

    def add(self, piece: str) -> str:
        piece = self._half + piece
        self._half = ""
        if piece and "\ud800" <= piece[-1] <= "\udbff":
            piece, self._half = piece[:-1], piece[-1]
        return repaired(piece)


def parse_arguments(raw: str) -> tuple[dict[str, Any], str | None]:
    """Tool arguments from their text: ``(arguments, None)``, or ``({}, text)`` when it is not a JSON object.

    Strict as everything else that people approve: no NaN, no doubled key, nothing after the object. Only halves
    of surrogate pairs are forgiven, since models produce them by themselves. Blank text means no arguments.
    """
    text = repaired(raw)
    if not text.strip():
        return {}, None
    try:
        value = loads_strict(_ESCAPE.sub(_whole_escape, text))
    except MalformedRequest:
        return {}, text
    if not isinstance(value, dict):
        return {}, text
    return value, None


def _whole_escape(escape: re.Match[str]) -> str:
    return r"\ufffd" if escape[1] else escape[0]
