"""``python -m tests.bench``: measure, print the table, write bench-<date>.json, exit 1 if a limit is missed."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from loopengine.embedded import Fsync
from tests.bench import endurance, rows
from tests.bench.figure import Figure, table
from tests.bench.product import started

POLICIES: tuple[Fsync, ...] = ("always", "everysec")
STRICTEST: Fsync = "always"


def main() -> int:
    options = _options()
    place = Path(".loopengine")  # on the disk of the project: a /tmp in memory would make fsync free
    place.mkdir(exist_ok=True)
    figures: list[Figure] = []
    for figure in _measure(place, options.fsync or POLICIES, options.only, full=options.full):
        figures.append(figure)
        print(f"measured: {figure.title} [{figure.fsync}]", file=sys.stderr, flush=True)
    print(table(figures))
    for figure in figures:
        if spent := figure.raw.get("cpu_ms_per_turn"):
            told = ", ".join(f"{name} {ms:.1f}" for name, ms in spent.items())
            print(f"CPU ms per turn, {figure.row} [{figure.fsync}]: {told}")
    path = options.out or Path(f"bench-{datetime.now(UTC):%Y-%m-%d}.json")
    path.write_bytes(orjson.dumps(_document(figures), option=orjson.OPT_INDENT_2))
    print(f"\nwritten to {path}")
    return 0 if all(figure.holds for figure in figures) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument(
        "--full", action="store_true", help="also 1,000 slow turns, and killed workers (2 minutes more)"
    )
    parser.add_argument(
        "--fsync", action="append", choices=POLICIES, help="only this policy for rows against the floor"
    )
    parser.add_argument("--only", choices=("floor", "endurance"), help="only the rows against the floor, or the others")
    parser.add_argument("--out", type=Path, help="where to write the figures (default: bench-<date>.json)")
    return parser.parse_args()


def _measure(place: Path, policies: tuple[Fsync, ...], only: str | None, *, full: bool) -> Iterator[Figure]:
    if only != "endurance":
        for fsync in policies:
            yield from _against_floor(place, fsync)
    if only != "floor":
        yield from _endurance(place)
        if full:
            yield from _long(place)


def _against_floor(place: Path, fsync: Fsync) -> Iterator[Figure]:
    with _folder(place) as name, started(Path(name), fsync) as product:
        product.add_worker()
        yield asyncio.run(rows.alone(product))
        yield asyncio.run(rows.decision(product))
        yield asyncio.run(rows.at_once(product, 1))
        product.add_worker()
        yield asyncio.run(rows.at_once(product, 2))


def _endurance(place: Path) -> Iterator[Figure]:
    with _folder(place) as name, started(Path(name), STRICTEST) as product:
        product.add_worker()
        yield asyncio.run(endurance.slow(product, 200))
        yield asyncio.run(endurance.parked(product))


def _long(place: Path) -> Iterator[Figure]:
    with _folder(place) as name, started(Path(name), STRICTEST) as product:
        product.add_worker(concurrency=1000)
        yield asyncio.run(endurance.slow(product, 1000))
    with _folder(place) as name, started(Path(name), STRICTEST) as product:
        product.add_worker()
        product.add_worker()
        yield asyncio.run(endurance.killed(product, supervised=False))
    with _folder(place) as name, started(Path(name), STRICTEST) as product:
        product.add_worker(processes=2)
        yield asyncio.run(endurance.killed(product, supervised=True))


def _folder(place: Path) -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="bench-", dir=place.resolve())


def _document(figures: list[Figure]) -> dict[str, Any]:
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": len(os.sched_getaffinity(0)),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "rows": [figure.as_json() for figure in figures],
    }


if __name__ == "__main__":
    sys.exit(main())
