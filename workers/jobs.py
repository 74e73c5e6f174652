"""One job, from being popped to being filed away in RQ.

A job is a hint: whatever id was popped, the slots look for due turns at once, and only then it is asked what the job
was. What RQ shows of it is the bookkeeping's business and never holds up a turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog
from rq.job import Job

from workers.bookkeeping import Bookkeeping
from workers.job import refusal
from workers.rq_worker import AsyncWorker

log = structlog.get_logger("workers")

_QUICK_S = 0.03
"""A job that ends sooner was seen by nobody: its bookkeeping shrinks to its removal."""
_LAST_WORDS_S = 2.0


class Jobs:
    """The jobs that this worker has taken. ``pump`` claims due turns and returns when those have ended."""

    def __init__(self, rq: AsyncWorker, books: Bookkeeping, pump: Callable[[], Awaitable[None]]) -> None:
        self.ended = asyncio.Event()  # set whenever a job has ended; whoever waits clears it
        self._rq = rq
        self._books = books
        self._pump = pump
        self._tasks: set[asyncio.Task[None]] = set()
        self._pumps: set[asyncio.Task[Exception | None]] = set()
        self._stop_requests: dict[str, asyncio.Event] = {}  # one for each job id that is under way
        self._removable: list[tuple[str, bool]] = []
        self._removing: asyncio.Task[None] | None = None

    def take(self, job_id: str) -> None:
        pump = asyncio.create_task(self._follow(), name="pump")
        self._pumps.add(pump)
        pump.add_done_callback(self._pumps.discard)
        task = asyncio.create_task(self._job(job_id, pump), name=f"job {job_id}")
        self._tasks.add(task)
        task.add_done_callback(self._on_end)

    def stop(self, job_id: str) -> bool:
        """End the job for RQ's eyes; its turns go on. False: no such job is under way."""
        if job_id not in self._stop_requests:
            return False
        self._stop_requests[job_id].set()
        return True

    async def finish(self) -> None:
        """After the slots were drained: file away what ended, and leave no task behind."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_LAST_WORDS_S)
        for pump in self._pumps:
            pump.cancel()
        self._books.give_up()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._removing is not None:
            await self._removing

    def _on_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self.ended.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a job was not filed away in RQ", task=task.get_name(), exc_info=error)

    async def _follow(self) -> Exception | None:
        try:
            await self._pump()
        except Exception as error:
            log.exception("claiming turns failed; the sweep tries again")
            return error
        return None

    async def _job(self, job_id: str, pump: asyncio.Task[Exception | None]) -> None:
        if job_id in self._stop_requests:
            # The same id twice at once: RQ would file the good run of the one as a failure of the other.
            log.info("a job that is under way came again; it only wakes", job=job_id)
            await asyncio.wait({pump})
            return self._remove(job_id, False)
        self._stop_requests[job_id] = asyncio.Event()
        try:
            job = await self._books.do(lambda: self._rq.fetch(job_id))
            if job is None:
                await asyncio.wait({pump})
                self._remove(job_id, False)
            elif reason := refusal(job):
                log.warning("a job was refused", job=job_id, reason=reason)
                await self._books.do(lambda: self._rq.refuse(job, reason))
            else:
                await self._wake_up(job, pump)
        finally:
            del self._stop_requests[job_id]
        return None

    async def _wake_up(self, job: Job, pump: asyncio.Task[Exception | None]) -> None:
        await asyncio.wait({pump}, timeout=_QUICK_S)
        if pump.done() and (pump.cancelled() or pump.result() is None):
            return self._remove(job.id, True)
        execution = await self._books.do(lambda: self._rq.begin(job))
        if execution is None:
            await asyncio.wait({pump})
            return self._remove(job.id, False)
        stopped = asyncio.create_task(self._stop_requests[job.id].wait(), name="stop request")
        await asyncio.wait({pump, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not pump.done():
            await self._books.do(lambda: self._rq.stop(job, execution))
        elif not pump.cancelled() and (error := pump.result()) is not None:
            await self._books.do(lambda: self._rq.fail(job, execution, error))
        else:
            await self._books.do(lambda: self._rq.succeed(job, execution))
        return None

    def _remove(self, job_id: str, succeeded: bool) -> None:
        self._removable.append((job_id, succeeded))
        if self._removing is None:
            self._removing = asyncio.create_task(self._remove_all(), name="remove jobs")

    async def _remove_all(self) -> None:
        """Jobs that end while a removal is under way share the next one."""
        while self._removable:
            batch, self._removable = self._removable, []
            succeeded = sum(ok for _, ok in batch)
            job_ids = [job_id for job_id, _ in batch]
            await self._books.do(lambda ids=job_ids, n=succeeded: self._rq.remove(ids, n))  # type: ignore[misc]
        self._removing = None
