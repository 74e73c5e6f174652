"""The audit ledger: a line before and a line after every run of a tool, on disk before anything else happens.

It answers, from outside, what really ran and how often. Without CUSTOMER_SERVICE_LEDGER nothing is written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def audited(*words: str) -> Iterator[None]:
    """`begin <words>` now, `end <words>` if the block succeeds. One write each: lines of processes never mix."""
    _append("begin", *words)
    yield
    _append("end", *words)


def _append(*words: str) -> None:
    path = os.environ.get("CUSTOMER_SERVICE_LEDGER")
    if not path:
        return
    line = " ".join("".join(word.split()) or "-" for word in words) + "\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
