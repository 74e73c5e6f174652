"""Who is alive, told from counters: a worker counts as dead when its counter stood still for one lease of the
watcher's own uninterrupted watching. No clock is compared with another's.
"""

from __future__ import annotations

from collections.abc import Mapping

# A watcher that did not look for this long (a stalled Redis, a paused process) knows nothing about the meantime:
# the workers may have been stalled by the same thing, so the count starts again.
LONGEST_GAP_S = 2.0


class Watch:
    """One watcher's memory. Times are its own monotonic seconds."""

    def __init__(self, lease_s: float) -> None:
        self.lease_s = lease_s
        self._seen: dict[str, tuple[str, float]] = {}
        self._looked: float | None = None

    def look(self, now: float, counters: Mapping[str, str]) -> None:
        if self._looked is None or now - self._looked > LONGEST_GAP_S:
            self._seen.clear()
        self._looked = now
        self._seen = {
            worker: self._seen[worker] if self._seen.get(worker, ("", 0.0))[0] == counter else (counter, now)
            for worker, counter in counters.items()
        }

    def dead(self, now: float) -> dict[str, str]:
        """Workers that stood still for a lease, with the counter they stood at."""
        return {worker: counter for worker, (counter, since) in self._seen.items() if now - since >= self.lease_s}

    def anyone_alive(self, now: float) -> bool:
        """Does some worker beat? A watcher that has not watched for a lease gives the benefit of the doubt."""
        return len(self._seen) > len(self.dead(now))
