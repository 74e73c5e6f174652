"""Reads request bodies: JSON only, uncompressed only, bounded in size and time, before anything is parsed.

Only JSON is also what keeps other web sites' forms out: a page cannot send that type elsewhere unasked.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request

from api.context import context_of
from protocol.bodies import read_body
from protocol.errors import PayloadTooLarge, UnsupportedMediaType
from protocol.shapes import Wire

MARGIN_BYTES = 64 * 1024
"""Room for the JSON around a message of the largest size: names, escapes, context."""
BODY_S = 30.0
"""A body that is not complete after this long is given up (408): a client that trickles must not hold memory."""

WireT = TypeVar("WireT", bound=Wire)


async def body_of(request: Request, model: type[WireT], *, may_be_empty: bool = False) -> WireT:
    """The body as ``model``. Raises UnsupportedMediaType, PayloadTooLarge, MalformedRequest, InvalidRequest."""
    _check_encoding(request)
    if not may_be_empty or "content-type" in request.headers:
        _check_type(request)
    data = await _read(request, context_of(request).settings.max_message_bytes + MARGIN_BYTES)
    if data and "content-type" not in request.headers:
        _check_type(request)
    return read_body(model, data, may_be_empty=may_be_empty)


async def no_body(request: Request) -> None:
    """For POSTs that need no body: none or {}. Anything else is refused as for other bodies."""
    await body_of(request, Nothing, may_be_empty=True)


class Nothing(Wire):
    """A body without fields."""


async def _read(request: Request, limit: int) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and (len(declared) > 15 or int(declared) > limit):
        raise _too_large(limit)
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for chunk in request.stream():
                data += chunk
                if len(data) > limit:
                    raise _too_large(limit)
    except TimeoutError:
        raise HTTPException(408, f"the body was not complete after {BODY_S:.0f} s: send it at once") from None
    return bytes(data)


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the body is larger than {limit} bytes; nothing of it was kept")


def _check_encoding(request: Request) -> None:
    encoding = ", ".join(request.headers.getlist("content-encoding")).strip().lower()
    if encoding not in ("", "identity"):
        raise UnsupportedMediaType("compressed bodies are not accepted: leave Content-Encoding out")


def _check_type(request: Request) -> None:
    named, *parameters = request.headers.get("content-type", "").lower().split(";")
    charsets = {
        value.strip(' "') for name, _, value in (p.partition("=") for p in parameters) if name.strip() == "charset"
    }
    if named.strip() != "application/json" or charsets - {"utf-8", "utf8", "us-ascii"}:
        raise UnsupportedMediaType("send JSON in UTF-8: Content-Type: application/json")
