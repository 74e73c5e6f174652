"""Exit codes, and how an exception becomes one of them with one line for the person who typed."""

from __future__ import annotations

from protocol.errors import CallerError, Conflict, TooManyWaiting

DONE = 0
FAILED = 1
USAGE = 2
WAITING = 3
"""A person has to decide or answer first."""
STOPPED = 4
"""Denied, or out of turns: the agent ended in good order, but not with an answer."""
CLOSED_PIPE = 141
"""Nobody reads any more: 128 + SIGPIPE, as a shell shows it for other programs."""
_SIGNALLED = 128

_BY_STOP_REASON = {"denied": STOPPED, "max_turns": STOPPED, "error": FAILED, "cancelled": FAILED}


def of_stop_reason(reason: str | None) -> int:
    return DONE if reason is None else _BY_STOP_REASON.get(reason, FAILED)


def of_error(error: Exception) -> int:
    """A request that was wrong as it was typed is a matter of usage; a lost race or a full list is not."""
    if isinstance(error, CallerError) and not isinstance(error, Conflict | TooManyWaiting):
        return USAGE
    return FAILED


def of_signal(number: int) -> int:
    return _SIGNALLED + number
