"""One run of one scenario: people do their steps, a worker is always there, and whoever is killed is replaced.

Synchronous and without threads, because it forks. A killed client does the same again, as clients do; a person who is
asked about an unknown outcome looks into the ledger, as people would into the other system.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import shutil
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import redis

from engine.plan import IT_HAPPENED, OUTCOME_ANSWERS, RUN_AGAIN
from engine.store import keys as k
from engine.store.keys import Keys
from engine.store.store import Entry, entry_of
from tests.faults.actors import SESSION, TENANT, World, be_client, be_worker, fork
from tests.faults.checker import broken_promises
from tests.faults.evidence import Evidence, gather
from tests.faults.ledger import Ledger
from tests.faults.scenarios import Scenario, Step
from tests.faults.writes import Target

STUCK_S = 25.0


@dataclass
class Run:
    """``writes``: distinct ones, in the order in which they were first applied. ``asked``: outcomes that a person
    was asked for although the story asks for none. ``repeated``: things that clients had to do again."""

    writes: list[str] = field(default_factory=list)
    killed: bool = False
    asked: int = 0
    repeated: int = 0
    problems: list[str] = field(default_factory=list)


class Driver:
    def __init__(self, url: str, folder: Path, scenario: Scenario, target: Target | None) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        self.ledger = Ledger(folder / "ledger")
        self.answers = Ledger(folder / "answers")
        self.trace = Ledger(folder / "trace")
        self.world = World(url, self.ledger, scenario, target)
        self.scenario = scenario
        self.world.agents()
        self.raw: Any = redis.Redis.from_url(url)
        self.raw.flushall()
        self.worker = 0
        self.born = 0
        self.deaths = 0
        self.run = Run()
        self.read: dict[str, list[list[Entry]]] = {}

    def play(self) -> Run:
        try:
            self.tend()
            for step in self.scenario.steps:
                self.do(step)
                self.read_along()
            self.until(self.at_rest)
            self.let_die()
        except TimeoutError as stuck:
            self.run.problems.append(f"1: stuck: {stuck}")
        finally:
            self.end_worker()
        self.run.killed = self.ledger.path.with_name("once-kill").exists()
        applied = (line["write"] for line in self.trace.lines() if line["told"] == "applied")
        self.run.writes = list(dict.fromkeys(applied))
        evidence = asyncio.run(self.look())
        self.run.problems += [f"{number}: {words}" for number, words in broken_promises(evidence)]
        self.run.problems += self.unexpected(evidence)
        self.raw.close()
        return self.run

    # -- the worker

    def tend(self) -> None:
        """A worker that died is replaced; one that ended by itself is a fault of ours."""
        if self.worker:
            pid, status = os.waitpid(self.worker, os.WNOHANG)
            if not pid:
                return
            self.deaths += 1
            self.read_along()
            if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
                self.run.problems.append(f"a worker ended with {status}: {self.output()}")
        self.born += 1
        self.worker = fork(self.world, functools.partial(be_worker, self.world, f"w{self.born}"))

    def end_worker(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.worker, signal.SIGKILL)
        os.waitpid(self.worker, 0)

    def output(self) -> str:
        path = self.ledger.path.with_name("output")
        return path.read_text(errors="replace")[-3000:] if path.exists() else ""

    def let_die(self) -> None:
        """The last write makes the turn rest before its writer has noted it, or died of it."""
        self.until(self.answered)

    def answered(self) -> bool:
        """Has the present worker the answers to all that it has sent?"""
        told = [line["told"] for line in self.trace.lines() if line["by"] == self.worker]
        return 2 * told.count("sent") == len(told)

    # -- people

    def do(self, step: Step) -> None:
        match step.do:
            case "say" | "cancel":
                self.client(step)
            case "held":
                self.until(lambda: self.open_card() or any(line["what"] == "tool" for line in self.ledger.lines()))
            case "parked":
                self.until(self.open_card)
            case "erase":
                self.until(self.at_rest)
                self.client(step)
            case _:
                card = self.until(lambda: self.open_card(planned=step.do))
                self.client(step, card["event"]["id"], card["digest"] if step.do == "approve" else "")

    def client(self, step: Step, item: str = "", digest: str = "") -> None:
        while True:
            pid = fork(self.world, lambda: be_client(self.world, step.do, step.text, item, digest))
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            if code == 0:
                return
            if code != -signal.SIGKILL:
                raise TimeoutError(f"a client's {step.do} failed: {self.output()}")
            self.run.repeated += 1

    def open_card(self, planned: str = "") -> Any:
        """The open item's card; an outcome that the story does not ask for is answered on the way."""
        for ref in self.turns():
            raw = self.raw.hget(Keys(0).turn(ref), "card")
            if raw:
                card = orjson.loads(raw)
                is_outcome = card["event"].get("options") == list(OUTCOME_ANSWERS)
                if not is_outcome or planned == "outcome":
                    return card
                self.find_out(card["event"]["id"])
        return None

    def find_out(self, item: str) -> None:
        turn, _, rest = item.partition(".")
        call = rest.rpartition(".")[0]
        happened = any(
            line["what"] == "tool" and (line["turn"], line["call"]) == (turn, call) for line in self.ledger.lines()
        )
        self.run.asked += 1
        self.client(Step("outcome", IT_HAPPENED if happened else RUN_AGAIN), item)

    # -- waiting

    def until(self, state: Any) -> Any:
        deadline = time.monotonic() + STUCK_S
        while not (value := state()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{[self.raw.hgetall(Keys(0).turn(ref)) for ref in self.turns()]} {self.output()}")
            self.tend()
            time.sleep(0.004)
        return value

    def turns(self) -> list[str]:
        return [ref.decode() for ref in self.raw.lrange(Keys(0).turns(k.session_ref(TENANT, "agent", SESSION)), 0, -1)]

    def at_rest(self) -> bool:
        """Every turn has ended. A step that waits for a person is not rest: the story has no such end."""
        if self.raw.zcard(Keys(0).pending(k.tenant_hash(TENANT))) and self.scenario.expiry_s is None:
            self.open_card()
        return all(self.raw.hget(Keys(0).turn(ref), "state") == b"done" for ref in self.turns())

    def read_along(self) -> None:
        """What a reader of the events has seen by now must still be so in the end."""
        for ref in self.turns():
            raw = self.raw.xrange(Keys(0).events(ref))
            entries = [entry_of(int(entry_id.split(b"-")[0]), fields[b"e"]) for entry_id, fields in raw]
            self.read.setdefault(k.turn_id_of(ref), []).append(entries)

    # -- afterwards

    async def look(self) -> Evidence:
        runtime = World(self.world.url, self.ledger, self.scenario, None).runtime()
        await runtime.store.open()
        try:
            return await gather(
                runtime, self.raw, tenant=TENANT, sessions=[SESSION], ledger=self.ledger.lines(),
                answers=self.answers.lines(), deaths=self.deaths, read_before=self.read,
            )  # fmt: skip
        finally:
            await runtime.aclose()

    def unexpected(self, seen: Evidence) -> list[str]:
        """What the story says must come out, whatever died."""
        problems = []
        ends = tuple(turn.events[-1].get("stopReason", "done") for turn in seen.turns.values() if turn.entries)
        if ends != self.scenario.ends:
            problems.append(f"turns ended {ends}, expected {self.scenario.ends}")
        runs = Counter(line["tool"] for line in seen.ledger if line["what"] == "tool")
        for tool, times in runs.items():
            wanted = self.scenario.effects.get(tool, 0)
            if tool not in ("read", "look", "idem") and (times > 1 if wanted is None else times != wanted):
                problems.append(f"{tool} had its effect {times} times, expected {wanted}")
        problems += [f"{t} never ran" for t, n in self.scenario.effects.items() if n and not runs[t]]
        return problems
