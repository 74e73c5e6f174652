"""Server-Sent Events: the frames we write, the parser for what we read, and the cursor in ``id:``.

The parser follows the WHATWG HTML standard, section 9.2.6, to the letter, because clients of other makers do too.
Who sends which event when is not decided here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_BREAKS = re.compile(rb"[\r\n\0]")
_LINE_END = re.compile(rb"\r\n?|\n")
_CURSOR = re.compile(r"([1-9][0-9]{0,9})-([0-9A-Za-z_-]{8})")
_MAX_NUMBER = 10**9
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a turn's stream: the event's number (from 1) and the 8 characters of the claim that wrote it."""

    n: int
    writer: str

    def __str__(self) -> str:
        return f"{self.n}-{self.writer}"

    @classmethod
    def parse(cls, text: str) -> Cursor | None:
        """None for anything that ``str(cursor)`` could not have given."""
        found = _CURSOR.fullmatch(text)
        if found is None or int(found[1]) > _MAX_NUMBER:
            return None
        return cls(int(found[1]), found[2])


@dataclass(frozen=True, slots=True)
class Frame:
    """One dispatched event. ``id`` is the last id seen so far, "" before the first: what a reconnect sends."""

    event: str
    data: str
    id: str


def frame(event: bytes, event_type: str, cursor: str | None) -> bytes:
    """One frame. ``event``: its JSON in one line, as ``json_text.dumps`` gives it; ``cursor`` None: no ``id:``.

    ValueError when any of the three holds CR, LF or NUL, or a type or cursor is not ASCII: such text would open
    a field of its own or be dropped by readers.
    """
    head = b"event: " + event_type.encode("ascii")
    if cursor is not None:
        head = b"id: " + cursor.encode("ascii") + b"\n" + head
    if head.count(b"\n") != (cursor is not None) or b"\r" in head or b"\0" in head or _BREAKS.search(event):
        raise ValueError(f"a line break or NUL in an event frame of type {event_type!r}, cursor {cursor!r}")
    return head + b"\ndata: " + event + b"\n\n"


def comment(text: str) -> bytes:
    """A comment block, which readers skip; keeps proxies from closing a quiet stream."""
    lines = _LINE_END.split(text.encode("utf-8", "replace"))
    return b"".join(b": " + line + b"\n" for line in lines) + b"\n"


class Decoder:
    """Incremental parser of one connection's bytes.

    After each ``feed``: ``last_event_id`` is what to send as Last-Event-ID, ``retry_ms`` the server's wish for the
    pause before a reconnect (None: it has none). An unfinished last event is never given out, as the standard wants.
    """

    def __init__(self, last_event_id: str = "") -> None:
        self.last_event_id = last_event_id
        self.retry_ms: int | None = None
        self._id = last_event_id
        self._event = ""
        self._data: list[str] = []
        self._pending = bytearray()
        self._searched = 0
        self._at_start = True
        self._skip_lf = False

    def feed(self, chunk: bytes) -> list[Frame]:
        """The events that these bytes complete, in order."""
        self._pending += chunk
        if self._at_start and not self._past_bom():
            return []
        frames = []
        for line in self._lines():
            if line:
                self._field(line)
            elif (done := self._dispatch()) is not None:
                frames.append(done)
        return frames

    def _past_bom(self) -> bool:
        if len(self._pending) < len(_BOM) and _BOM.startswith(self._pending):
            return False
        if self._pending.startswith(_BOM):
            del self._pending[: len(_BOM)]
        self._at_start = False
        return True

    def _lines(self) -> list[str]:
        # A CR ends its line at once; whether an LF belongs to it may only show in the next chunk.
        if self._skip_lf and self._pending:
            if self._pending.startswith(b"\n"):
                del self._pending[:1]
            self._skip_lf = False
        lines, start = [], 0
        for end in _LINE_END.finditer(self._pending, self._searched):
            lines.append(self._pending[start : end.start()].decode("utf-8", "replace"))
            start = end.end()
            self._skip_lf = end[0] == b"\r" and start == len(self._pending)
        del self._pending[:start]
        self._searched = len(self._pending)
        return lines

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value
        elif name == "retry" and value.isascii() and value.isdigit() and len(value) <= 18:
            self.retry_ms = int(value)

    def _dispatch(self) -> Frame | None:
        self.last_event_id = self._id
        event, data = self._event or "message", self._data
        self._event, self._data = "", []
        return Frame(event, "\n".join(data), self._id) if data else None
