"""A worker process seen with RQ's own eyes: jobs, registries, states, commands, signals, outages."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import cast

import pytest
from redis import Redis
from rq.command import send_shutdown_command, send_stop_job_command
from rq.job import Job, JobStatus
from rq.queue import Queue
from rq.registry import FailedJobRegistry, StartedJobRegistry
from rq.serializers import JSONSerializer
from rq.suspension import resume, suspend
from rq.worker import BaseWorker, Worker

from engine.store.wake import JOB_FUNCTION
from loopengine.embedded import EmbeddedStore, ensure_embedded
from tests.processes import Process, eventually, is_alive, kill, running

PROGRAM = Path(__file__).with_name("worker_program.py")


class Stage:
    """The worker's folder (see worker_program.py) and RQ's view of its Redis."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.redis = Redis.from_url(url)
        self.queue = Queue("loopengine", connection=self.redis, serializer=JSONSerializer)
        self.started = StartedJobRegistry(queue=self.queue)
        self.failed = FailedJobRegistry(queue=self.queue)

    def worker(self, *arguments: str) -> AbstractContextManager[Process]:
        command = [sys.executable, str(PROGRAM), self.url, str(self.folder), *arguments]
        return running(command, self.folder / "output", env={"LOOPENGINE_DRAIN_SECONDS": "5"})

    def wake(self, **options: object) -> Job:
        return self.queue.enqueue(JOB_FUNCTION, job_timeout=-1, result_ttl=0, failure_ttl=60, **options)

    def log(self) -> list[str]:
        path = self.folder / "log"
        return path.read_text().split() if path.exists() else []

    def rq_worker(self) -> BaseWorker | None:
        return next(iter(Worker.all(connection=self.redis, serializer=JSONSerializer)), None)

    def state(self) -> str | None:
        worker = self.rq_worker()
        return worker.get_state() if worker else None

    def done_count(self) -> int:
        worker = self.rq_worker()
        return worker.successful_job_count if worker else 0

    def failure(self, job: Job) -> str:
        result = job.latest_result()
        return str(result.exc_string) if result else ""

    def expiry(self) -> float:
        """When RQ will call the one execution abandoned (s since the epoch), 0.0 without one."""
        entries = cast(list[tuple[bytes, float]], self.redis.zrange(self.started.key, 0, -1, withscores=True))
        return max((score for _, score in entries), default=0.0)

    def hold(self) -> Path:
        path = self.folder / "hold"
        path.touch()
        return path

    def leftovers(self) -> list[object]:
        return [key for pattern in ("rq:job:*", "rq:execution*", "*:intermediate") for key in self.redis.keys(pattern)]


@pytest.fixture
def stage(redis_url: str, tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(redis_url, tmp_path)
    yield stage
    stage.redis.close()


def test_a_short_job_is_followed_and_nothing_of_it_remains(stage: Stage) -> None:
    with stage.worker() as worker:
        worker.wait_for_output("worker started")
        stage.wake()
        eventually(lambda: stage.log() == ["start", "pump", "pumped"] and not stage.leftovers())
        eventually(lambda: stage.done_count() == 1)
        assert (stage.queue.count, stage.failed.count, stage.started.count) == (0, 0, 0)


def test_rq_shows_a_long_job_as_started_by_a_busy_worker_and_then_an_idle_one(stage: Stage) -> None:
    hold = stage.hold()
    with stage.worker("w-1") as worker:
        worker.wait_for_output("worker started")
        jobs = [stage.wake(), stage.wake()]
        eventually(lambda: stage.started.count == 2)
        assert set(stage.started.get_job_ids()) == {job.id for job in jobs}
        eventually(lambda: stage.state() == "busy")
        rq = stage.rq_worker()
        assert rq is not None
        assert (rq.name, rq.pid, rq.queue_names()) == ("w-1", worker.pid, ["loopengine"])
        eventually(lambda: {e.job_id for e in rq.get_current_executions(refresh=True)} == {job.id for job in jobs})
        eventually(lambda: [job.get_status() for job in jobs] == [JobStatus.STARTED] * 2)
        assert jobs[0].fetch(jobs[0].id, connection=stage.redis, serializer=JSONSerializer).worker_name == "w-1"

        hold.unlink()
        eventually(lambda: stage.state() == "idle" and stage.started.count == 0 and not stage.leftovers())
        assert stage.failed.count == 0


def test_heartbeats_keep_worker_and_executions_in_rqs_registries(stage: Stage) -> None:
    hold = stage.hold()
    with stage.worker() as worker:
        worker.wait_for_output("worker started")
        stage.wake()
        first_expiry = eventually(stage.expiry)
        rq = eventually(stage.rq_worker)
        assert rq is not None
        first_beat = rq.last_heartbeat
        eventually(lambda: stage.expiry() > first_expiry)
        rq.refresh()  # type: ignore[no-untyped-call]
        assert rq.last_heartbeat != first_beat
        hold.unlink()


@pytest.mark.parametrize("function", ["os.getcwd", "workers.job.refusal", "antigravity.geohash"])
def test_any_other_function_is_filed_as_failed_and_never_imported(stage: Stage, function: str) -> None:
    with stage.worker() as worker:
        worker.wait_for_output("worker started")
        job = stage.queue.enqueue(function)
        eventually(lambda: stage.failed.count == 1)
        assert job.get_status() == JobStatus.FAILED
        assert "refused" in stage.failure(job)
        assert function in stage.failure(job)
        assert 0 < stage.redis.ttl(job.key) <= 24 * 3600
        eventually(lambda: not stage.redis.keys("*:intermediate"))


def test_a_job_whose_hash_is_gone_is_still_a_hint(stage: Stage) -> None:
    with stage.worker() as worker:
        worker.wait_for_output("worker started")
        stage.redis.rpush(stage.queue.key, "gone")
        eventually(lambda: stage.log() == ["start", "pump", "pumped"] and not stage.leftovers())


def test_the_same_id_twice_is_harmless(stage: Stage) -> None:
    hold = stage.hold()
    with stage.worker() as worker:
        worker.wait_for_output("worker started")
        job = stage.wake()
        eventually(lambda: stage.started.count == 1)
        stage.redis.rpush(stage.queue.key, job.id)
        eventually(lambda: stage.log().count("pump") == 2)
        assert stage.started.count == 1
        hold.unlink()
        eventually(lambda: not stage.leftovers() and stage.started.count == 0)
        assert stage.failed.count == 0


def test_slots_that_break_are_reported_by_rq_and_the_worker_goes_on(stage: Stage) -> None:
    (stage.folder / "fail").touch()
    with stage.worker() as worker:
        worker.wait_for_output("worker started")
        stage.wake()
        eventually(lambda: stage.failed.count == 1)
        (stage.folder / "fail").unlink()
        stage.wake()
        eventually(lambda: "pumped" in stage.log())


def test_without_a_free_slot_no_job_is_taken(stage: Stage) -> None:
    full = stage.folder / "full"
    full.touch()
    with stage.worker() as worker:
        worker.wait_for_output("worker started")
        eventually(lambda: stage.state() == "idle")
        stage.wake()
        assert stage.queue.count == 1
        full.unlink()
        eventually(lambda: "pumped" in stage.log())


def test_a_stopped_job_ends_for_rq_while_its_turns_go_on(stage: Stage) -> None:
    hold = stage.hold()
    with stage.worker() as worker:
        worker.wait_for_output("worker started")
        job = stage.wake()
        eventually(lambda: job.get_status() == JobStatus.STARTED)
        eventually(lambda: stage.redis.pubsub_channels())
        send_stop_job_command(stage.redis, job.id, serializer=JSONSerializer)
        eventually(lambda: job.get_status() == JobStatus.STOPPED)
        assert (stage.failed.count, stage.started.count) == (1, 0)
        assert "pumped" not in stage.log()
        hold.unlink()
        eventually(lambda: "pumped" in stage.log())


def test_rq_suspend_stops_taking_jobs_until_rq_resume(stage: Stage) -> None:
    suspend(stage.redis)
    with stage.worker() as worker:
        worker.wait_for_output("worker started")
        eventually(lambda: stage.state() == "suspended")
        resume(stage.redis)
        eventually(lambda: stage.state() == "idle")
        stage.wake()
        eventually(lambda: "pumped" in stage.log())


def stop_by_signal(stage: Stage, worker: Process) -> None:
    worker.signal(signal.SIGTERM)


def stop_by_interrupt(stage: Stage, worker: Process) -> None:
    worker.signal(signal.SIGINT)


def stop_by_command(stage: Stage, worker: Process) -> None:
    eventually(lambda: stage.redis.pubsub_channels())
    rq = stage.rq_worker()
    assert rq is not None
    send_shutdown_command(stage.redis, rq.name)


@pytest.mark.parametrize("stop", [stop_by_signal, stop_by_interrupt, stop_by_command])
def test_one_request_to_stop_drains_unregisters_and_exits_well(
    stage: Stage, stop: Callable[[Stage, Process], None]
) -> None:
    stage.hold()
    with stage.worker() as worker:
        worker.wait_for_output("worker started")
        stage.wake()
        eventually(lambda: stage.started.count == 1)
        stop(stage, worker)
        assert worker.wait() == 0
        assert stage.log() == ["start", "pump", "drain", "pumped", "closed"]
        assert stage.rq_worker() is None
        assert (stage.failed.count, stage.started.count) == (0, 0)
        assert not stage.leftovers()


def test_a_stopping_worker_takes_no_more_jobs_and_a_second_signal_ends_it_at_once(stage: Stage) -> None:
    stage.hold()
    (stage.folder / "undrained").touch()
    with stage.worker() as worker:
        worker.wait_for_output("worker started")
        stage.wake()
        eventually(lambda: "pump" in stage.log())
        worker.signal(signal.SIGTERM)
        eventually(lambda: "drain" in stage.log())
        stage.wake()
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 1
        assert stage.queue.count == 1
        assert "second signal" in worker.output


def test_two_workers_cannot_have_one_name(stage: Stage) -> None:
    with stage.worker("twin") as first:
        first.wait_for_output("worker started")
        command = [sys.executable, str(PROGRAM), stage.url, str(stage.folder), "twin"]
        with running(command, stage.folder / "second") as second:
            assert second.wait() != 0
            assert "take another name" in second.output
        rq = stage.rq_worker()
        assert rq is not None
        assert rq.pid == first.pid


@pytest.fixture
def own_valkey(tmp_path: Path) -> Iterator[EmbeddedStore]:
    store = ensure_embedded(tmp_path / "own", fsync="everysec")
    yield store
    store.stop()


def test_a_worker_survives_the_death_of_redis_and_is_seen_again_even_without_its_data(
    own_valkey: EmbeddedStore, tmp_path: Path
) -> None:
    stage = Stage(own_valkey.url, tmp_path)
    hold = stage.hold()
    with stage.worker("w-1") as worker:
        worker.wait_for_output("worker started")
        stage.wake()
        eventually(lambda: stage.started.count == 1)

        kill(own_valkey.pid)
        worker.wait_for_output("the queue does not answer")
        hold.unlink()
        eventually(lambda: stage.log().count("pumped") == 1)  # an outage of the queue holds up no turn
        for data in (own_valkey.folder / "appendonlydir").iterdir():
            data.unlink()
        own_valkey.revive()

        eventually(lambda: stage.state() == "idle")
        stage.wake()
        eventually(lambda: stage.log().count("pumped") == 2)
        eventually(lambda: not stage.leftovers())
        eventually(lambda: stage.redis.pubsub_channels())
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
    stage.redis.close()


def test_a_worker_stops_in_time_while_redis_is_away(own_valkey: EmbeddedStore, tmp_path: Path) -> None:
    stage = Stage(own_valkey.url, tmp_path)
    with stage.worker() as worker:
        worker.wait_for_output("worker started")
        kill(own_valkey.pid)
        worker.wait_for_output("the queue does not answer")
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
        assert not is_alive(worker.pid)
    stage.redis.close()
