"""The one job of the queue, and the rule that nothing else is ever run from it.

A job is a wake-up and carries nothing. Whoever can write to RQ's Redis can put any job there, so names in a job
(function, callbacks, webhooks) are compared or dropped, never imported, called or fetched.
"""

from __future__ import annotations

from typing import Any

from rq.exceptions import DeserializationError
from rq.job import Job

from engine.store.wake import JOB_FUNCTION


def wake() -> None:
    """Only found by RQ's own workers, which do not know turns."""
    raise RuntimeError(
        "this queue holds wake-ups for `loopengine worker`; an `rq worker` cannot run turns: stop it, nothing is lost"
    )


class InertJob(Job):
    """A job read from Redis without anything in it that would run code, call out, or put it back on the queue."""

    def restore(self, raw_data: Any) -> None:
        super().restore(raw_data)
        self._success_callback_name = self._failure_callback_name = self._stopped_callback_name = None
        self.webhooks = []
        self.retries_left = self.repeats_left = None
        self.rate_limit_key = None


def refusal(job: Job) -> str | None:
    """Why ``job`` must not be run; None if it is a wake-up."""
    try:
        name = job.func_name
    except DeserializationError:
        return f"refused: the job is not in RQ's JSON format; this queue takes only {JOB_FUNCTION}"
    if name != JOB_FUNCTION or job.instance is not None:
        return f"refused: the job asks for {name!r}; this queue takes only {JOB_FUNCTION}"
    return None
