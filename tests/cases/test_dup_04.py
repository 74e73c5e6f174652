"""DUP-04: one turn, two jobs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from redis import Redis
from rq.job import Job
from rq.queue import Queue
from rq.registry import FailedJobRegistry, StartedJobRegistry, clean_registries
from rq.serializers import JSONSerializer
from rq.worker import Worker
from rq.worker_registration import clean_worker_registry

from engine.store.wake import JOB_FUNCTION
from tests.cases.ledger import asks, says, use
from tests.cases.product import Product, case
from tests.processes import Process, eventually, running_python

SCRIPTS = {"^once$": [asks(use("toolu_t", "ledger_add", key="t", secs=4)), says("Once.")]}
LATER_S = 180.0
SWEEP = """
import asyncio, sys
from engine.settings import Settings
from engine.store.opening import open_store
from engine.store.waker import Waker
from workers.sweep import Sweep

async def main():
    settings = Settings()
    store = await open_store(settings, settings.redis_url, patience_s=None)
    waker = Waker(store.connection, store.connection, settings.queue)
    sweep = Sweep(store, sys.argv[1], settings.lease_s, waker.wake_if_idle)
    while True:
        await sweep.round()
        print("swept", flush=True)
        await asyncio.sleep(0.05)

asyncio.run(main())
"""


class Jobs:
    """RQ's own view of the queue."""

    def __init__(self, redis: Redis) -> None:
        self.redis = redis
        self.queue = Queue("loopengine", connection=redis, serializer=JSONSerializer)
        self.started = StartedJobRegistry(queue=self.queue)
        self.failed = FailedJobRegistry(queue=self.queue)

    def running(self) -> str | None:
        """Id of the job that is shown as executing."""
        return next(iter(self.started.get_job_ids(cleanup=False)), None)

    def again(self, job_id: str) -> None:
        """The same id on the queue once more."""
        self.redis.rpush(self.queue.key, job_id)

    def another(self) -> Job:
        return self.queue.enqueue(JOB_FUNCTION, job_timeout=-1, result_ttl=0, failure_ttl=60)

    def taken(self, *jobs: Job) -> None:
        """Wait until nothing lies on the queue and nothing is left of ``jobs``."""

        def all_gone() -> bool:
            waiting = self.queue.count or self.redis.llen(self.queue.intermediate_queue_key)
            return not waiting and not any(self.redis.exists(job.key) for job in jobs)

        eventually(all_gone)

    def clean_up(self) -> None:
        """What RQ's workers do every few minutes, done by RQ itself, for a time when every timeout is long over."""
        for registry in (self.started, self.failed):
            registry.cleanup(timestamp=int(time.time() + LATER_S))
        clean_registries(self.queue)
        clean_worker_registry(self.queue)
        rq = Worker([self.queue], connection=self.redis, serializer=JSONSerializer)
        rq.run_maintenance_tasks()  # type: ignore[no-untyped-call]


@contextmanager
def sweeping(product: Product, shells: int = 2) -> Iterator[Sequence[Process]]:
    """The crash-resume sweep in two shells at once, over and over."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                running_python(SWEEP, product.folder / f"{name}.log", name, cwd=product.folder, env=product.env)
            )
            for name in (f"shell-{n}" for n in range(shells))
        ]


def swept_by(shells: Sequence[Process], rounds: int = 5) -> None:
    """Wait until each shell has swept so often from now on."""
    before = [shell.output.count("swept") for shell in shells]
    eventually(lambda: all(s.output.count("swept") >= n + rounds for s, n in zip(shells, before, strict=True)), 60)


async def test_more_jobs_than_turns_change_nothing(redis_url: str, tmp_path: Path) -> None:
    env = {"LOOPENGINE_LOG_LEVEL": "debug"}
    with Redis.from_url(redis_url) as redis:
        jobs = Jobs(redis)
        async with case(redis_url, tmp_path, SCRIPTS, workers=0, env=env) as product:
            with sweeping(product) as shells:
                # 2. "Run the crash-resume sweep in two shells at once while t is queued, running, parked, finished."
                turn_id = (await product.client.say("s", "once", wait_s=0)).json()["turnId"]
                swept_by(shells)
                turn = await product.client.turn(turn_id)
                assert (turn["state"], len(turn["events"])) == ("queued", 1)
                assert jobs.queue.count == 1  # sweeps wake only where no wake-up lies already

                # "Two workers."
                product.start(apis=0, workers=2)
                parked = await product.client.settled(turn_id, "parked")
                await a_parked_turn_stays_parked(product, jobs, shells, parked)

                assert (await product.client.decide(parked["item"]["id"], "allow", by="kim")).status_code in (200, 202)
                await a_running_turn_runs_once(product, jobs, shells, turn_id)

                done = await product.client.settled(turn_id, "done")
                assert (done["text"], done.get("stopReason")) == ("Once.", None)
                await a_finished_turn_stays_finished(product, jobs, shells, done)


async def a_parked_turn_stays_parked(
    product: Product, jobs: Jobs, shells: Sequence[Process], parked: dict[str, Any]
) -> None:
    # "A parked turn is not resumed by a job without a decision."
    jobs.taken(jobs.another(), jobs.another())
    swept_by(shells)
    assert await product.client.turn(parked["turnId"]) == parked
    assert (len(product.fake.requests), product.ledger.lines) == (1, [])


async def a_running_turn_runs_once(product: Product, jobs: Jobs, shells: Sequence[Process], turn_id: str) -> None:
    # 1. "While turn t runs, put its job on the queue again (same job id, then another job id, same turn)."
    job_id = eventually(jobs.running)
    assert job_id is not None
    eventually(lambda: product.ledger.count("begin t"))
    for _ in range(3):
        jobs.again(job_id)
    jobs.taken(jobs.another(), jobs.another())
    swept_by(shells)
    assert (await product.client.turn(turn_id))["state"] == "running"
    assert product.ledger.count("end t") == 0

    # "The extra jobs end quietly and say why in the log."
    log = "".join(worker.output for worker in product.workers)
    assert log.count("a wake-up found nothing to do") >= 2
    assert log.count("a job that is under way came again") + log.count("a wake-up found nothing to do") >= 5
    assert jobs.failed.get_job_count(cleanup=False) == 0


async def a_finished_turn_stays_finished(
    product: Product, jobs: Jobs, shells: Sequence[Process], done: dict[str, Any]
) -> None:
    shown = await product.client.show("s")
    # 3. "Let t finish; wait 3 minutes with two other workers running so that registry clean-up happens." RQ itself is
    # asked for that clean-up instead, as of a time 3 minutes from now.
    former = list(product.workers)
    product.start(apis=0, workers=2)
    product.stop(*former)
    jobs.taken(jobs.another())
    jobs.clean_up()
    swept_by(shells)

    # 3: "t stays finished; no later event; `SHOW` unchanged."
    assert await product.client.turn(done["turnId"]) == done
    assert await product.client.show("s") == shown
    # "Ledger and model-call counts stay those of one run."
    assert [line.split()[:2] for line in product.ledger.lines] == [["begin", "t"], ["end", "t"]]
    assert len(product.fake.requests) == 2
    # None of the jobs was filed as abandoned or failed.
    assert (jobs.failed.get_job_count(cleanup=False), jobs.running()) == (0, None)
