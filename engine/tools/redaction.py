"""Takes secrets out of text that leaves the process: error messages of tools, and their stack traces in the log."""

from __future__ import annotations

import os
import re

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)
_MIN_CHARS = 8  # shorter values ("true", "8080") would blank out ordinary words
_BEARER = re.compile(r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/=-]{8,}")
_URL_PASSWORD = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/@]+(?=@)")

REDACTED = "[redacted]"


def redact(text: str) -> str:
    """The text without values of secret environment variables, bearer tokens and passwords in URLs."""
    values = {value for name, value in os.environ.items() if _SECRET_NAME.search(name) and len(value) >= _MIN_CHARS}
    for value in sorted(values, key=len, reverse=True):  # the longest first: one secret may be part of another
        text = text.replace(value, REDACTED)
    text = _BEARER.sub(rf"\1{REDACTED}", text)
    return _URL_PASSWORD.sub(rf"\1{REDACTED}", text)
