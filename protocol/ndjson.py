"""Newline-delimited JSON: one event per line, lines end at LF and nowhere else.

Python's ``splitlines`` and many line readers also split at U+2028, U+0085, VT and FF, which may stand in a JSON
text of other makers; these functions do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def line(event: bytes) -> bytes:
    """The line of one event, whose JSON is in one line already. ValueError when it is not."""
    if b"\n" in event or b"\r" in event:
        raise ValueError("a line break inside the JSON of an event")
    return event + b"\n"


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a byte stream that was cut anywhere, without their LF; empty ones are left out.

    A last line without LF is given out too: whether it is whole is for the JSON parser to say.
    """
    rest: list[bytes] = []
    for chunk in chunks:
        head, *more = chunk.split(b"\n")
        rest.append(head)
        for piece in more:
            yield from _unless_blank(b"".join(rest))
            rest = [piece]
    yield from _unless_blank(b"".join(rest))


def _unless_blank(text: bytes) -> Iterator[bytes]:
    if text.strip(b" \t\r"):
        yield text
