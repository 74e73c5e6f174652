"""What each figure must reach. The one place to tighten: a row without a limit is printed and decides nothing.

A limit on a ratio holds for both fsync policies, each against the floor under that policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Limit:
    bound: Literal["at most", "at least"]
    value: float

    def holds(self, measured: float) -> bool:
        return measured <= self.value if self.bound == "at most" else measured >= self.value

    def __str__(self) -> str:
        return f"{'<=' if self.bound == 'at most' else '>='} {self.value:g}"


LIMITS: dict[str, Limit | None] = {
    # times the floor's p50
    "alone": Limit("at most", 15),
    "decision": None,
    # percent of the floor's turns/s; the limit is for the machine's two cores, hence for two processes
    "at-once-1": None,
    "at-once-2": Limit("at least", 8),
    # seconds
    "slow-200": Limit("at most", 8),
    "slow-1000": Limit("at most", 12),
    "killed-supervised": Limit("at most", 1),
    "killed-unsupervised": Limit("at most", 7),
    # KiB in Redis
    "parked": Limit("at most", 16),
}
