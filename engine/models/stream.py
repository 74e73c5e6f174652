"""Reads one model's event stream into an answer, and tells a proper end from a cut.

Knows bytes, silence and end marks; what the events mean belongs to the answer that is fed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, Protocol

from engine.models.contract import OnText
from protocol.errors import ModelCut

if TYPE_CHECKING:
    import httpx2

DONE: Final = "[DONE]"
KEEP_ALIVE_FACTOR: Final = 10
"""Pings and comments prove a connection, not a model: a stream that sends nothing else for this many idle
limits is cut too, or a proxy that has lost its upstream would hold a turn for ever."""

MAX_EVENT_BYTES: Final = 32 * 1024 * 1024
DRAIN_S: Final = 0.25
"""After the end mark: reading to the end of the body lets the connection be used again."""


class GrowingAnswer(Protocol):
    ended: bool
    """The wire's own end mark was seen."""

    def feed(self, event: dict[str, Any]) -> str | None:
        """Take one event in; returns new text to show, "" for other progress, None for a mere sign of life.

        May raise a ModelError for an error event, and LookupError, TypeError, ValueError or AttributeError
        for an event of the wrong shape.
        """
        ...

    def done(self) -> None:
        """The stream said ``[DONE]``."""
        ...


async def read_stream(response: httpx2.Response, answer: GrowingAnswer, idle_s: float, on_text: OnText | None) -> None:
    """Feed every event to ``answer`` until the body ends. ``response`` must have ``idle_s`` as its read timeout.

    Raises ModelCut for silence, garbage and broken connections before the end mark. A body that ends cleanly
    without its end mark raises nothing here: the answer decides whether it is complete.
    """
    import anyio
    import httpx2

    loop = asyncio.get_running_loop()
    quiet_s = idle_s * KEEP_ALIVE_FACTOR
    source = httpx2.EventSource(response, max_event_size=MAX_EVENT_BYTES)
    try:
        async with asyncio.timeout(quiet_s) as quiet, aclosing(_events(source, answer)) as events:
            async for data in events:
                text = _feed(answer, data)
                if text and on_text is not None:
                    on_text(text)
                if answer.ended:
                    quiet.reschedule(loop.time() + DRAIN_S)
                elif text is not None:
                    quiet.reschedule(loop.time() + quiet_s)
    except (httpx2.TimeoutException, TimeoutError) as error:
        if not answer.ended:
            raise ModelCut(f"the model's stream said nothing for {idle_s:g} s") from error
    # EndOfStream and SSLError (an OSError) get through httpx2 untranslated when TLS breaks.
    except (httpx2.HTTPError, httpx2.StreamError, anyio.EndOfStream, OSError) as error:
        if not answer.ended:
            raise ModelCut(f"the model's stream broke: {error or type(error).__name__}") from error


async def _events(source: httpx2.EventSource, answer: GrowingAnswer) -> AsyncGenerator[str, None]:
    """The data of each event. What follows the end mark is read, so that the body ends, and dropped."""
    async for event in source:
        if event.data and not answer.ended:
            yield event.data


def _feed(answer: GrowingAnswer, data: str) -> str | None:
    if data.strip() == DONE:
        answer.done()
        return None
    try:
        event = json.loads(data)
        if not isinstance(event, dict):
            raise TypeError("an event is not a JSON object")
        return answer.feed(event)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ModelCut(f"the model's stream holds garbage: {error}") from error
