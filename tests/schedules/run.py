"""One random schedule: kills around every write, zombies that come back, lost replies, cancels, false suspicions,
expiries and (on demand) a store that forgets its latest writes; then quiet, then the checks.
"""

from __future__ import annotations

import asyncio

from engine.store import keys as k
from tests.schedules.actors import canceller, client, person, start, sweeper, worker
from tests.schedules.checks import check
from tests.schedules.gate import ACTOR
from tests.schedules.world import World, make_world

STEPS = 4000
STORM = int(STEPS * 0.6)  # faults happen only before this, so that the rest can come to an end
QUIET = 60_000


class Schedule:
    def __init__(self, seed: int, redis_url: str, forgetful: bool = False) -> None:
        self.seed = seed
        self.forgetful = forgetful
        self.world: World = make_world(seed, redis_url)
        self.dead: set[str] = set()
        self.zombies: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.alive: list[str] = []
        self.born = 0
        self.memory: tuple[int, dict[bytes, bytes]] | None = None

    async def run(self) -> World:
        world, gate = self.world, self.world.gate
        ACTOR.set("the schedule")
        gate.open = True
        await world.store.open()
        gate.open = False
        for _ in range(3):
            self.bear_worker()
        half = len(world.messages) // 2
        self.tasks += [
            start("client 1", client(world, world.messages[:half])),
            start("client 2", client(world, world.messages[half:])),
            start("person 1", person(world)),
            start("person 2", person(world)),
            start("sweeper", sweeper(world, self.dead)),
        ]
        try:
            for step in range(STEPS):
                await gate.settle()
                self.fail_if_crashed()
                if step < STORM:
                    self.fault(step)
                gate.release_one(frozenset(self.alive))
            await self.come_to_rest()
        finally:
            for task in self.tasks:
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)
        check(world)
        return world

    def bear_worker(self) -> None:
        self.born += 1
        name = f"w{self.born}"
        self.alive.append(name)
        self.tasks.append(start(name, worker(self.world, name)))

    def fault(self, step: int) -> None:
        world, gate, chance = self.world, self.world.gate, self.world.rng.random()
        if chance < 0.006:  # kill -9
            self.replace_worker(gate.killed)
        elif chance < 0.012:  # SIGSTOP, long enough to be taken for dead
            self.zombies.append(self.replace_worker(gate.paused))
        elif chance < 0.020 and self.zombies:  # SIGCONT
            gate.paused.discard(self.zombies.pop(world.rng.randrange(len(self.zombies))))
        elif chance < 0.023:
            message = world.rng.choice(world.messages)
            self.tasks.append(start(f"canceller {step}", canceller(world, message)))
        if self.forgetful:
            self.forget(step)

    def replace_worker(self, how: set[str]) -> str:
        name = self.alive.pop(self.world.rng.randrange(len(self.alive)))
        how.add(name)
        self.dead.add(name)
        self.bear_worker()
        return name

    def forget(self, step: int) -> None:
        """A failover to a replica that lacks the last writes."""
        raw = self.world.raw
        if self.memory is None and self.world.rng.random() < 0.01:
            self.memory = step, {key: raw.dump(key) for key in raw.keys("*")}
        elif self.memory and step - self.memory[0] > self.world.rng.randrange(30, 150):
            raw.flushdb()
            for key, value in self.memory[1].items():
                raw.restore(key, 0, value)
            self.memory = None
            self.world.lost_suffixes += 1

    async def come_to_rest(self) -> None:
        """No more faults: the living finish everything, if nothing is wrong."""
        for name in self.zombies:
            self.world.gate.killed.add(name)
        for step in range(QUIET):
            await self.world.gate.settle()
            self.fail_if_crashed()
            if step % 200 == 0 and self.all_done():
                return
            self.world.gate.release_one(frozenset(self.alive))
        raise AssertionError(f"seed {self.seed}: stuck: {self.states()}")

    def fail_if_crashed(self) -> None:
        for task in self.tasks:
            if task.done() and not task.cancelled() and (error := task.exception()):
                raise AssertionError(f"seed {self.seed}: {task.get_name()} crashed") from error

    def states(self) -> dict[str, bytes | None]:
        world = self.world
        return {
            message.turn_id: world.raw.hget(
                world.store.keys_for(message.tenant).turn(k.turn_ref(message.tenant, message.turn_id)), "state"
            )
            for message in world.messages
            if message.turn_id
        }

    def all_done(self) -> bool:
        clients = [task for task in self.tasks if task.get_name().startswith("client")]
        forgotten = (b"done", None) if self.world.lost_suffixes else (b"done",)
        return all(task.done() for task in clients) and all(state in forgotten for state in self.states().values())
