"""Wake-up jobs on RQ's queue: "there may be a turn to claim". Written in RQ's own format, but without its client.

RQ's synchronous client costs a turn more than the rest of accepting it. A wake-up carries nothing: a lost, doubled
or late one changes nothing, because workers claim turns and a sweep wakes what is due.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import Any

JOB_FUNCTION = "workers.job.wake"
"""The one function that jobs of the queue may name. Named here, run (never imported by its name) in workers/."""

WAITING_LIMIT = 32
_UNTAKEN_S = 24 * 3600  # later the sweep has long woken somebody; only keeps forgotten jobs from piling up
_FAILED_S = 3600

Key = str
Arg = str | bytes | int


class Wake:
    """Makes wake-ups for one RQ queue. Holds no connection; safe to share."""

    def __init__(self, queue: str) -> None:
        # Imported here: RQ takes 20 ms, and commands that only read never wake anybody.
        from redis import Redis
        from rq.job import Job, JobStatus
        from rq.queue import Queue
        from rq.serializers import JSONSerializer

        unconnected = Redis()
        job = Job.create(
            JOB_FUNCTION,
            connection=unconnected,
            serializer=JSONSerializer,
            origin=queue,
            status=JobStatus.QUEUED,
            timeout=-1,
            result_ttl=0,
            failure_ttl=_FAILED_S,
            ttl=_UNTAKEN_S,
        )
        self._fields: dict[str, Any] = {**job.to_dict(), "status": JobStatus.QUEUED.value}
        self._job_prefix = Job.redis_job_namespace_prefix
        self._queues_key = Queue.redis_queues_keys
        self.queue_key: Key = f"{Queue.redis_queue_namespace_prefix}{queue}"

    def command(self, turn_id: str, limit: int = WAITING_LIMIT) -> tuple[list[Key], list[Arg]]:
        """KEYS and ARGV of the script ``wake`` for one wake-up; call again for another.

        ``turn_id`` is shown by RQ's tools. Nothing is written while ``limit`` jobs or more wait.
        """
        job_id = secrets.token_hex(16)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        fields = {**self._fields, "created_at": now, "enqueued_at": now, "description": f"wake-up: turn {turn_id}"}
        args: list[Arg] = [limit, _UNTAKEN_S, job_id]
        for name, value in fields.items():
            args += (name, value)
        return [self.queue_key, self._queues_key, self._job_prefix + job_id], args
