"""Processor time by process, so that a slow figure says at once whose it is. Linux only; elsewhere it is left out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def spent_s(pids: Mapping[str, int]) -> dict[str, float]:
    """Seconds of user and system time of each process, with all its threads, since it began."""
    spent = {}
    for name, pid in pids.items():
        stat = Path(f"/proc/{pid}/stat")
        if stat.exists():
            fields = stat.read_text().rpartition(")")[2].split()
            spent[name] = (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
    return spent


def between(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    return {name: after[name] - seconds for name, seconds in before.items() if name in after}
