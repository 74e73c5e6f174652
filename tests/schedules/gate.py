"""Deterministic chance over real asyncio code: every outside step of an actor waits at the gate, and the schedule
picks who goes on. An actor that is killed never passes again; a paused one passes when it is resumed.
"""

from __future__ import annotations

import asyncio
import contextvars
import random

ACTOR: contextvars.ContextVar[str] = contextvars.ContextVar("actor")


class Gate:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.killed: set[str] = set()
        self.paused: set[str] = set()
        self.open = False  # True: everybody passes (setting up and looking at the end)
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []

    async def step(self) -> None:
        """One outside step of the present actor."""
        if self.open:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((ACTOR.get(), future))
        await future

    async def settle(self) -> None:
        """Let everybody run until all of them wait at the gate again."""
        quiet = 0
        while quiet < 4:
            before = len(self._waiting)
            await asyncio.sleep(0)
            quiet = quiet + 1 if len(self._waiting) == before else 0

    def release_one(self, favoured: frozenset[str] = frozenset()) -> bool:
        """Let one waiting step pass; ``favoured`` actors are drawn three times as often. False: nobody can go on."""
        self._waiting = [(actor, future) for actor, future in self._waiting if not future.done()]
        able = [w for w in self._waiting if w[0] not in self.killed and w[0] not in self.paused]
        if not able:
            return False
        weights = [3 if actor in favoured else 1 for actor, _ in able]
        chosen = self.rng.choices(able, weights)[0]
        self._waiting.remove(chosen)
        chosen[1].set_result(None)
        return True
