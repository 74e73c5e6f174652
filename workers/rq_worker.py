"""What RQ knows about this worker: its registration, its executions, and how its jobs ended.

A subclass of RQ's worker that never works by itself: every method here is synchronous, short, safe to repeat, and
called from the bookkeeping thread only. The loop that takes jobs is worker.py.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import structlog
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from rq import worker_registration
from rq.exceptions import NoSuchJobError
from rq.executions import Execution
from rq.job import Job
from rq.queue import Queue
from rq.serializers import JSONSerializer
from rq.suspension import WORKERS_SUSPENDED
from rq.timeouts import BaseDeathPenalty
from rq.utils import now
from rq.worker import BaseWorker, WorkerStatus

from protocol.errors import ConfigurationError
from workers.job import InertJob

log = structlog.get_logger("workers")

HEARTBEAT_S = 5
_DEAD_AFTER_S = 30
"""RQ's tools stop showing a killed worker 60 s after this."""
_REFUSED_S = 24 * 3600


class NoDeathPenalty(BaseDeathPenalty):
    """RQ's timeouts are signals, which belong to the main thread; the engine has timeouts of its own."""

    def setup_death_penalty(self) -> None:
        return

    def cancel_death_penalty(self) -> None:
        return


class AsyncWorker(BaseWorker):
    """RQ's view of one worker process with many executions on one queue."""

    death_penalty_class = NoDeathPenalty
    job_class = InertJob
    # Wider than any command here takes; RQ's own value (6 minutes) is that of a blocking read.
    connection_timeout = 10

    @classmethod
    def open(cls, queue: str, *, redis_url: str, name: str) -> AsyncWorker:
        """Connects (RQ asks the server for its own address). Raises redis' connection errors."""
        # RQ would log three coloured lines for every job to stdout.
        logging.getLogger("rq").setLevel(logging.WARNING)
        logging.getLogger("rq.worker").setLevel(logging.WARNING)
        return cls(
            [queue],
            name=name,
            connection=Redis.from_url(redis_url, socket_connect_timeout=5.0, retry=Retry(NoBackoff(), 0)),
            serializer=JSONSerializer,
            worker_ttl=_DEAD_AFTER_S,
            job_monitoring_interval=HEARTBEAT_S,
            default_result_ttl=0,
            log_job_description=False,
        )

    @property
    def queue(self) -> Queue:
        return self.queues[0]

    # --- the worker ---

    def register(self) -> None:
        """Raises ConfigurationError while another living worker has this name."""
        key = self.connection.hmget(self.key, "pid", "hostname", "death")
        mine = key[0] == str(self.pid).encode() and key[1] == str(self.hostname).encode()
        if key[0] is not None and key[2] is None and not mine:
            raise ConfigurationError(
                "--name",
                None,
                f"a worker named {self.name!r} is registered with this Redis; take another name, or wait 90 s "
                "if that worker was killed",
            )
        if mine:  # the reply to the first attempt was lost
            self.connection.delete(self.key)
        self.register_birth()  # type: ignore[no-untyped-call]
        self.set_state(WorkerStatus.IDLE)

    def unregister(self) -> None:
        self.register_death()  # type: ignore[no-untyped-call]

    def beat(self) -> bool:
        """Heartbeats of the worker and its executions, and RQ's maintenance when it is due. True: suspended by
        ``rq suspend``."""
        for execution in list(self.executions.values()):
            self.maintain_heartbeats(execution.job, execution)
        self.heartbeat()
        if not self.connection.sismember(self.redis_workers_keys, self.key):
            # RQ's Redis came back without its data: be seen again, with everything that is running.
            self.connection.hset(self.key, mapping=self.serialize())
            worker_registration.register(self)
            self.heartbeat()
        suspended = bool(self.connection.exists(WORKERS_SUSPENDED))
        self._show_state(suspended=suspended)
        if self.should_run_maintenance_tasks:
            self.run_maintenance_tasks()  # type: ignore[no-untyped-call]
        return suspended

    def _show_state(self, suspended: bool = False) -> None:
        idle = WorkerStatus.SUSPENDED if suspended else WorkerStatus.IDLE
        self.set_state(WorkerStatus.BUSY if self.executions else idle)

    # --- its jobs ---

    def fetch(self, job_id: str) -> Job | None:
        """None: its hash is gone (it outlived its time in the queue), or is nothing that RQ would have written."""
        try:
            return self.job_class.fetch(job_id, connection=self.connection, serializer=self.serializer)
        except NoSuchJobError:
            return None
        except (ValueError, LookupError) as error:
            log.warning("a job that cannot be read is dropped", job=job_id, error=str(error))
            return None

    def begin(self, job: Job) -> Execution:
        """Show the job as started by this worker."""
        for stale in [e for e in self.executions.values() if e.job_id == job.id]:
            del self.executions[stale.id]  # of an attempt whose reply was lost; its keys expire
        job.redis_server_version = self.get_redis_server_version()  # type: ignore[no-untyped-call]
        execution = self.prepare_execution(job)
        self.prepare_job_execution(job, remove_from_intermediate_queue=True)
        return execution

    def succeed(self, job: Job, execution: Execution) -> None:
        """Count the job as done and remove it. RQ's own way takes ten round trips, for callbacks, results and
        dependents that a wake-up has not, and raises once the job's hash is gone."""
        working_time = now() - (job.started_at or now())
        with self.connection.pipeline() as pipeline:
            self.cleanup_execution(job, pipeline, execution)
            pipeline.delete(job.key, job.dependents_key, job.dependencies_key)
            self.increment_successful_job_count(pipeline)
            self.increment_total_working_time(working_time, pipeline)
            self.set_state(WorkerStatus.BUSY if self.executions else WorkerStatus.IDLE, pipeline)
            pipeline.execute()

    def fail(self, job: Job, execution: Execution, error: BaseException) -> None:
        self._finalize_failure(job, self.queue, execution, (type(error), error, error.__traceback__))
        self._show_state()

    def stop(self, job: Job, execution: Execution) -> None:
        """End a job on request of ``rq``'s stop command. Turns are not RQ's to stop: they go on."""
        job.ended_at = now()
        self._stopped_job_id = job.id
        self.handle_job_failure(
            job, self.queue, exc_string="Stopped on request; turns are stopped by cancelling them.", execution=execution
        )
        self._show_state()

    def refuse(self, job: Job, reason: str) -> None:
        """File the job as failed, with the reason, without having run anything of it."""
        job.redis_server_version = self.get_redis_server_version()  # type: ignore[no-untyped-call]
        job.failure_ttl = min(job.failure_ttl, _REFUSED_S) if job.failure_ttl else _REFUSED_S
        job.ended_at = now()
        self.handle_job_failure(job, self.queue, exc_string=reason)
        self.connection.lrem(self.queue.intermediate_queue_key, 1, job.id)

    def remove(self, job_ids: Sequence[str], succeeded: int) -> None:
        """Remove jobs whose run was not shown: all that RQ would leave of them. ``succeeded`` of them count as done."""
        with self.connection.pipeline() as pipeline:
            for job_id in job_ids:
                pipeline.lrem(self.queue.intermediate_queue_key, 1, job_id)
                pipeline.delete(self.job_class.key_for(job_id))
            if succeeded:
                pipeline.hincrby(self.key, "successful_job_count", succeeded)
            pipeline.execute()

    def put_back(self, job_id: str) -> None:
        """A job that was taken while the worker stops goes to the front of the queue."""
        with self.connection.pipeline() as pipeline:
            pipeline.lrem(self.queue.intermediate_queue_key, 1, job_id)
            pipeline.lpush(self.queue.key, job_id)
            pipeline.execute()

    def close(self) -> None:
        self.connection.close()
