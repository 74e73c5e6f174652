"""The fault table: what is expected when a process dies just before or just after each durable write.

Which writes there are is found by playing every scenario once without a fault; what is expected of each stands here by
its name, so that a new kind of write without an expectation is an error. The same table is in docs/durability.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from tests.faults.driver import Driver, Run
from tests.faults.scenarios import SCENARIOS, Scenario
from tests.faults.writes import Side, Target

Outcome = Literal["finishes", "asks", "repeats"]
MEANING: dict[Outcome, str] = {
    "finishes": "goes on by itself",
    "asks": "asks a person: outcome unknown",
    "repeats": "the client sends it again",
}
SIDES: tuple[Side, Side] = ("before", "after")
PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "durability.md"
BEGIN, END = "<!-- table: python -m tests.faults page -->", "<!-- end of table -->"

# Of clients; of workers: where no effect is under way, where one is about to begin, where one has just ended.
_CLIENT: tuple[Outcome, Outcome] = ("repeats", "repeats")
_QUIET: tuple[Outcome, Outcome] = ("finishes", "finishes")
_BEGINS: tuple[Outcome, Outcome] = ("finishes", "asks")
_ENDS: tuple[Outcome, Outcome] = ("asks", "finishes")
_ENDS_AND_BEGINS: tuple[Outcome, Outcome] = ("asks", "asks")

EXPECTED: dict[str, tuple[Outcome, Outcome]] = {
    "accept": _CLIENT,
    "wake": _CLIENT,
    "settle": _CLIENT,
    "commit forced (cancel)": _CLIENT,
    "erase": _CLIENT,
    "claim": _QUIET,
    "claim (expiry)": _QUIET,
    "release": _QUIET,
    "commit turn -> open": _QUIET,
    "commit turn+attempt -> go": _QUIET,
    "commit turn+attempt -> queue": _QUIET,
    "commit turn+model+ended -> done": _QUIET,
    "commit turn+model+result -> go": _QUIET,
    "commit turn+model+asked -> park": _QUIET,
    "commit turn+model+started read -> go": _QUIET,
    "commit turn+model+started idempotent -> go": _QUIET,
    "commit turn+model+started effect -> go": _BEGINS,
    "commit model+started read -> go": _QUIET,
    "commit model+started effect -> go": _BEGINS,
    "commit model+ended -> done": _QUIET,
    "commit result -> go": _QUIET,
    "commit result read -> go": _QUIET,
    "commit result read+started effect -> go": _BEGINS,
    "commit result idempotent -> go": _QUIET,
    "commit result effect -> go": _ENDS,
    "commit result effect+started effect -> go": _ENDS_AND_BEGINS,
    "commit result effect+ended -> done": _ENDS,
    "commit asked -> park": _QUIET,
    "commit started again -> open": _BEGINS,
    "commit judged+started read -> go": _QUIET,
    "commit judged+started effect -> go": _BEGINS,
    "commit judged+result+ended -> done": _QUIET,
    "commit decided+judged+result+ended -> done": _QUIET,
}


def dry_run(url: str, folder: Path, scenario: Scenario) -> list[str]:
    """The distinct writes of a scenario in which nobody dies by our hand. Raises AssertionError if it goes wrong, or
    if a write has no expected outcome."""
    run = Driver(url, folder, scenario, None).play()
    assert not run.problems, (scenario.name, run.problems)
    unknown = [write for write in run.writes if write not in EXPECTED]
    assert not unknown, f"new kinds of writes: say in tests/faults/table.py what is expected of {unknown}"
    return run.writes


def play_cell(url: str, folder: Path, scenario: Scenario, target: Target) -> list[str]:
    """What is wrong with one cell; empty if nothing is."""
    run = Driver(url, folder, scenario, target).play()
    expected = EXPECTED[target.write][SIDES.index(target.side)]
    problems = [*run.problems, *_differences(run, scenario, expected)]
    return [f"{scenario.name}: killed {target.side} {target.write}: {problem}" for problem in problems]


def _differences(run: Run, scenario: Scenario, expected: Outcome) -> list[str]:
    if not run.killed:
        return ["the write never came"]
    asked = run.asked > 0 or (expected == "asks" and any(step.do == "outcome" for step in scenario.steps))
    seen: Outcome = "repeats" if run.repeated else "asks" if asked else "finishes"
    return [] if seen == expected else [f"expected: {MEANING[expected]}; seen: {MEANING[seen]}"]


def cells(writes: Sequence[str]) -> list[Target]:
    return [Target(write, side) for write in writes for side in SIDES]


def as_markdown(writes: Mapping[str, Sequence[str]]) -> str:
    """``writes``: those of each scenario."""
    lines = ["| write | killed just before it is sent | killed just after it was applied | in |", "|---|---|---|---|"]
    for write, outcomes in EXPECTED.items():
        stories = [name for name, those in writes.items() if write in those]
        where = "every story" if len(stories) == len(SCENARIOS) else "; ".join(stories)
        before, after = (MEANING[outcome] for outcome in outcomes)
        lines.append(f"| `{write}` | {before} | {after} | {where} |")
    count = sum(len(cells(those)) for those in writes.values())
    return "\n".join([*lines, "", f"{count} cells: each write of each of {len(writes)} stories, before and after."])


def split_page() -> tuple[str, str, str]:
    """The page before its table, the table, and the page behind it."""
    before, _, rest = PAGE.read_text().partition(BEGIN + "\n")
    table, _, after = rest.partition("\n" + END)
    return before + BEGIN + "\n", table, "\n" + END + after
