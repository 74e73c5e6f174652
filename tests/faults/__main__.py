"""``python -m tests.faults``: the whole table, or the page's copy of it.

play [--repeat N] [SCENARIO ...]   every cell (of these scenarios), N times; exits 1 if one is wrong
page                               writes the table into docs/durability.md
serve URL FOLDER                   for pytest: a JSON list [scenario, repeat] a line in, the result a line out
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loopengine.embedded import ensure_embedded
from tests.faults.scenarios import SCENARIOS
from tests.faults.table import PAGE, as_markdown, cells, dry_run, play_cell, split_page


def play_scenario(url: str, folder: Path, name: str, repeat: int) -> tuple[list[str], list[str]]:
    """Its writes, and what is wrong in its cells."""
    scenario = SCENARIOS[name]
    writes = dry_run(url, folder, scenario)
    problems = [
        problem
        for _ in range(repeat)
        for target in cells(writes)
        for problem in play_cell(url, folder, scenario, target)
    ]
    return writes, problems


def play(url: str, folder: Path, names: list[str], repeat: int) -> int:
    wrong = 0
    for name in names or list(SCENARIOS):
        writes, problems = play_scenario(url, folder, name, repeat)
        print(
            f"{name}: {repeat * len(cells(writes))} cells, {len(problems)} problems", *problems, sep="\n  ", flush=True
        )
        wrong += len(problems)
    return 1 if wrong else 0


def page(url: str, folder: Path) -> int:
    before, _, after = split_page()
    PAGE.write_text(before + as_markdown({name: dry_run(url, folder, s) for name, s in SCENARIOS.items()}) + after)
    return 0


def serve(url: str, folder: Path) -> int:
    for line in sys.stdin:
        name, repeat = json.loads(line)
        try:
            writes, problems = play_scenario(url, folder, name, repeat)
        except AssertionError as error:
            writes, problems = [], [str(error)]
        print(json.dumps([writes, problems]), flush=True)
    return 0


def with_a_store(work: Callable[..., int], *args: Any) -> int:
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        store = ensure_embedded(Path(folder), fsync="everysec")
        try:
            return work(store.url, Path(folder) / "run", *args)
        finally:
            store.stop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    playing = commands.add_parser("play")
    playing.add_argument("--repeat", type=int, default=1)
    playing.add_argument("scenario", nargs="*")
    commands.add_parser("page")
    serving = commands.add_parser("serve")
    serving.add_argument("url")
    serving.add_argument("folder", type=Path)
    chosen = parser.parse_args()
    if chosen.command == "serve":
        return serve(chosen.url, chosen.folder)
    if chosen.command == "page":
        return with_a_store(page)
    return with_a_store(play, chosen.scenario, chosen.repeat)


if __name__ == "__main__":
    sys.exit(main())
