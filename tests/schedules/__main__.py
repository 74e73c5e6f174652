"""python -m tests.schedules FIRST LAST [forgetful]: run seeds FIRST to LAST - 1 and say what happened."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from loopengine.embedded import ensure_embedded
from tests.schedules.run import Schedule


def main() -> int:
    first, last, forgetful = int(sys.argv[1]), int(sys.argv[2]), "forgetful" in sys.argv[3:]
    total: Counter[str] = Counter()
    began = time.monotonic()
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        store = ensure_embedded(Path(folder), fsync="no")
        for seed in range(first, last):
            try:
                world = asyncio.run(Schedule(seed, store.url, forgetful).run())
            except AssertionError as error:
                failed.append(seed)
                print(f"seed {seed}: {error!r} {error.__cause__!r}", flush=True)
                continue
            total["effects"] += len(world.ledger)
            total["decided"] += len(world.decided)
            total["cancelled"] += len(world.cancelled)
            total["lost suffixes"] += world.lost_suffixes
            total.update(world.refused)
        store.stop()
    print(f"{last - first} seeds, {len(failed)} failed {failed[:20]}: {dict(total)}, {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
