"""Why a model call failed, in the engine's four words: busy, cut, too long, refused.

Both SDKs' exceptions and both wires' error events end here. Messages are short and hold no key material,
because they reach events and logs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import ModuleType
from typing import Any, Final

from protocol.errors import ModelBusy, ModelCut, ModelError, ModelRefused, ModelTooLong

BUSY_STATUSES: Final = frozenset({408, 409, 429})
"""Besides every 5xx. 408 and 409 are what both SDKs would retry themselves."""

BUSY_TYPES: Final = frozenset(
    {
        "overloaded_error", "api_error", "rate_limit_error", "timeout_error",
        "server_error", "overloaded", "rate_limit_exceeded", "service_unavailable", "internal_server_error",
    }
)  # fmt: skip

NO_CREDIT: Final = "insufficient_quota"
"""OpenAI's 429 for an empty account: waiting does not help."""

TOO_LONG: Final = re.compile(
    r"prompt is too long|exceed context limit|context[_ ]length[_ ]exceeded|maximum context length"
    r"|request_too_large",
    re.IGNORECASE,
)

_KEYS: Final = re.compile(r"\b(?:sk|pk|rk|key)[-_][\w*.-]{3,}|\bBearer\s+\S+", re.IGNORECASE)
_MAX_MESSAGE: Final = 300


def opening_failure(error: Exception, sdk: ModuleType, key_variable: str) -> ModelError:
    """Translate what the SDK raised before there was a stream to read."""
    if isinstance(error, ModelError):
        return error
    if isinstance(error, sdk.APIStatusError):
        return status_failure(error.status_code, error.body, error.response.headers, key_variable)
    if isinstance(error, sdk.APIConnectionError):
        return ModelBusy(f"the model provider cannot be reached: {tidy(str(error.__cause__ or error))}")
    return ModelRefused(f"the request to the model could not be made: {tidy(str(error))}")


def status_failure(status: int, body: object, headers: Mapping[str, str], key_variable: str) -> ModelError:
    """Translate an HTTP answer that is not a success."""
    kind, message = _type_and_message(body)
    said = f"the model provider answered {status}: {tidy(message)}"
    if status in (401, 403):
        return ModelRefused(f"the model provider refused the key in {key_variable} ({status})")
    if status == 413 or (status in (400, 422) and TOO_LONG.search(f"{kind} {message}")):
        return ModelTooLong(said)
    if (status in BUSY_STATUSES or status >= 500) and NO_CREDIT not in kind:
        return ModelBusy(said, retry_after(headers))
    return ModelRefused(said)


def event_failure(body: object) -> ModelError:
    """Translate an error event inside a stream whose status was 200: only its type tells what it is.

    A type nobody knows counts as a cut: the stream broke, and the engine tries again a bounded number of times.
    """
    kind, message = _type_and_message(body)
    said = f"the model provider broke off: {tidy(message)}"
    if TOO_LONG.search(f"{kind} {message}"):
        return ModelTooLong(said)
    words = kind.split()
    if any(word in BUSY_TYPES or _busy_number(word) for word in words):
        return ModelBusy(said)
    return ModelRefused(said) if words else ModelCut(said)


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds to wait by ``retry-after-ms`` or ``Retry-After`` (seconds or an HTTP date); None: not said."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) * unit
        except ValueError:
            return _until(value, now or datetime.now(UTC))
        return max(0.0, seconds) if math.isfinite(seconds) else None
    return None


def tidy(message: str) -> str:
    """One short line without anything that looks like a key."""
    line = " ".join(_KEYS.sub("[key]", message).split())
    return line if len(line) <= _MAX_MESSAGE else line[: _MAX_MESSAGE - 1] + "…"


def _until(date: str, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())


def _type_and_message(body: object) -> tuple[str, str]:
    """Type and code in one string, and the message, from ``{"error": {...}}`` or the inner object alone."""
    error: Any = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        return "", str(error or "no details")
    kinds = [str(error[name]) for name in ("type", "code") if error.get(name) is not None]
    return " ".join(kinds), str(error.get("message") or "no details")


def _busy_number(word: str) -> bool:
    """OpenAI-compatible gateways put the status of the server behind them into ``code``."""
    return word.isascii() and word.isdigit() and (int(word) in BUSY_STATUSES or int(word) >= 500)
