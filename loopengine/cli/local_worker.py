"""A worker inside a command, for turns that nobody else would run.

It shares the command's event loop and is a full worker to the store (beat, sweep, claims), only without RQ: no job
wakes it, it looks for itself. It comes when no worker beats, or when a turn of an embedded store lies there untouched.
"""

from __future__ import annotations

import asyncio
import contextlib

import structlog

from engine.runtime import Runtime
from loopengine.cli.deployment import Deployment
from protocol.errors import LoopEngineError, StoreUnavailable
from workers.naming import new_worker_name
from workers.slots import TurnSlots, open_slots

log = structlog.get_logger("loopengine.cli")

_LOOK_S = 0.25


class LocalWorker:
    def __init__(self, deployment: Deployment, runtime: Runtime) -> None:
        self._deployment = deployment
        self._runtime = runtime
        self._slots: TurnSlots | None = None
        self._pumps: set[asyncio.Task[None]] = set()
        self._watch: asyncio.Task[None] | None = None
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Gets the exception when no worker can be had here; whoever follows a turn must not wait on without one."""

    @property
    def is_working(self) -> bool:
        return self._slots is not None

    def watch(self, tenant: str, turn_id: str) -> None:
        """From now on see to it that ``turn_id`` has a worker."""
        if self._watch is not None:
            self._watch.cancel()
        self._watch = asyncio.create_task(self._see_to(tenant, turn_id), name="see to a turn")
        self._watch.add_done_callback(self._note_failure)

    async def stop(self) -> None:
        """Hand back what still runs at its next commit, as a worker does that is told to stop."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        self.failed.cancel()
        if self._slots is not None:
            await self._slots.drain(self._deployment.settings.drain_s)
            await asyncio.gather(*self._pumps, return_exceptions=True)
            await self._slots.aclose()

    def _note_failure(self, watch: asyncio.Task[None]) -> None:
        if not watch.cancelled() and (error := watch.exception()) is not None and not self.failed.done():
            self.failed.set_exception(error)

    async def _see_to(self, tenant: str, turn_id: str) -> None:
        seen: tuple[str, int] | None = None
        while self._slots is None:
            with contextlib.suppress(StoreUnavailable):
                now = await self._look_at(tenant, turn_id)
                is_left_lying = (
                    self._deployment.embedded is not None and now == seen and now[0] in ("queued", "waiting")
                )
                if is_left_lying or not await self._runtime.workers_alive():
                    self._slots = await self._start()
                    break
                seen = now
            await asyncio.sleep(_LOOK_S)
        while True:
            pump = asyncio.create_task(self._pump(self._slots), name="pump")
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)
            await asyncio.sleep(_LOOK_S)

    async def _look_at(self, tenant: str, turn_id: str) -> tuple[str, int]:
        try:
            view = await self._runtime.turn(tenant, turn_id)
        except LoopEngineError:
            return "gone", 0
        return view.state, view.n_events

    async def _start(self) -> TurnSlots:
        name = new_worker_name()
        slots = await open_slots(self._deployment.settings, redis_url=self._deployment.url, worker=name)
        await slots.start()
        log.info("no worker was there: this command runs turns itself", worker=name)
        return slots

    @staticmethod
    async def _pump(slots: TurnSlots) -> None:
        try:
            await slots.pump()
        except StoreUnavailable as error:
            log.warning("the store does not answer; looking again soon", error=str(error))
