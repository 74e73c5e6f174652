"""One measured figure, judged by the table of limits."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from tests.bench.limits import LIMITS


@dataclass(frozen=True)
class Figure:
    """``value`` in ``unit`` is what the limit of ``row`` judges; ``ours`` and ``floor`` say what it was made of."""

    row: str
    title: str
    fsync: str
    value: float
    unit: str
    ours: str
    floor: str = ""
    raw: dict[str, Any] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        limit = LIMITS[self.row]
        return limit is None or limit.holds(self.value)

    @property
    def verdict(self) -> str:
        if LIMITS[self.row] is None:
            return "-"
        return "PASS" if self.holds else "below"

    def as_json(self) -> dict[str, Any]:
        limit = LIMITS[self.row]
        return {**asdict(self), "limit": str(limit) if limit else None, "verdict": self.verdict}


_HEAD = ("figure", "fsync", "ours", "floor", "value", "limit", "verdict")


def table(figures: list[Figure]) -> str:
    rows = [_HEAD, *(_cells(figure) for figure in figures)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _cells(figure: Figure) -> tuple[str, ...]:
    limit = LIMITS[figure.row]
    value = f"{figure.value:.1f} {figure.unit}"
    return (figure.title, figure.fsync, figure.ours, figure.floor, value, str(limit or "-"), figure.verdict)
