"""A keep-alive HTTP client that costs a few dozen microseconds a request: it shares the cores with what it measures.

Knows only what the benchmark sends and gets: JSON bodies with a Content-Length.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

import orjson


class Unexpected(Exception):
    """An answer of another status than the one that was asked for."""


class HttpClient:
    """One connection, one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        self._reader = reader
        self._writer = writer
        self._host = host

    @classmethod
    async def open(cls, base_url: str) -> HttpClient:
        parts = urlsplit(base_url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        return cls(reader, writer, parts.netloc)

    async def post(self, path: str, body: dict[str, Any], *, expect: int) -> dict[str, Any]:
        """The answer's body. Raises Unexpected with what came instead."""
        data = orjson.dumps(body)
        head = f"POST {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
        self._writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        status, answer = await self._answer()
        if status != expect:
            raise Unexpected(
                f"POST {path} answered {status}, expected {expect}: {answer[:500].decode(errors='replace')}"
            )
        return orjson.loads(answer)  # type: ignore[no-any-return]

    async def get(self, path: str) -> int:
        """The answer's status."""
        self._writer.write(f"GET {path} HTTP/1.1\r\nHost: {self._host}\r\n\r\n".encode())
        return (await self._answer())[0]

    async def _answer(self) -> tuple[int, bytes]:
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        return int(head[9:12]), await self._reader.readexactly(length)

    async def aclose(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()
