"""Wake-up jobs are RQ jobs in every respect that RQ's tools look at."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
from redis import Redis, asyncio as aioredis
from rq.job import Job, JobStatus
from rq.queue import Queue
from rq.serializers import JSONSerializer

from engine.store.connection import Connection, client as redis_client
from engine.store.wake import JOB_FUNCTION
from engine.store.waker import Waker
from workers import job as job_module


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[aioredis.Redis]:
    redis = aioredis.Redis.from_url(redis_url)
    yield redis
    await redis.aclose()


@pytest.fixture
async def waker(redis_url: str) -> AsyncIterator[Waker]:
    connection = Connection(redis_client(redis_url))
    yield Waker(connection, connection, "q")
    await connection.aclose()


async def test_a_wake_up_has_exactly_the_fields_that_rq_writes_itself(waker: Waker, redis_url: str) -> None:
    with Redis.from_url(redis_url) as rq:
        queue = Queue("q", connection=rq, serializer=JSONSerializer)
        theirs = queue.enqueue(
            JOB_FUNCTION, job_timeout=-1, result_ttl=0, failure_ttl=3600, ttl=24 * 3600, description="wake-up: turn t_1"
        )
        await waker.wake("t_1")
        ours = queue.jobs[1]
        mine, rqs = rq.hgetall(ours.key), rq.hgetall(theirs.key)
        times = {b"created_at", b"enqueued_at"}
        assert {k: v for k, v in mine.items() if k not in times} == {k: v for k, v in rqs.items() if k not in times}
        assert mine.keys() == rqs.keys()
        assert abs(rq.ttl(ours.key) - rq.ttl(theirs.key)) <= 1


async def test_rq_reads_a_wake_up_and_lists_its_queue(waker: Waker, redis_url: str) -> None:
    await waker.wake("t_1")
    with Redis.from_url(redis_url) as rq:
        assert [queue.name for queue in Queue.all(rq)] == ["q"]
        queue = Queue("q", connection=rq, serializer=JSONSerializer)
        job = Job.fetch(queue.job_ids[0], connection=rq, serializer=JSONSerializer)
        assert (job.func_name, job.args, job.kwargs) == (JOB_FUNCTION, [], {})
        assert (job.get_status(), job.origin, job.timeout, job.result_ttl) == (JobStatus.QUEUED, "q", -1, 0)
        assert job.description == "wake-up: turn t_1"


async def test_no_more_than_the_limit_wait_and_each_has_an_id_of_its_own(waker: Waker, client: aioredis.Redis) -> None:
    for _ in range(5):
        await waker.wake("t_1", limit=3)
    assert len(set(await client.lrange("rq:queue:q", 0, -1))) == 3
    assert len(await client.keys("rq:job:*")) == 3


def test_the_named_function_exists_and_tells_an_ordinary_rq_worker_what_to_do() -> None:
    module, _, function = JOB_FUNCTION.rpartition(".")
    assert job_module.__name__ == module
    with pytest.raises(RuntimeError, match="loopengine worker"):
        getattr(job_module, function)()


async def test_a_pickled_job_is_refused_without_being_unpickled(redis_url: str) -> None:
    with Redis.from_url(redis_url) as rq:
        pickled = Queue("q", connection=rq).enqueue("os.getcwd")
        job = job_module.InertJob.fetch(pickled.id, connection=rq, serializer=JSONSerializer)
        assert "JSON" in (job_module.refusal(job) or "")


async def test_what_a_job_names_for_later_is_dropped_when_it_is_read(redis_url: str) -> None:
    with Redis.from_url(redis_url) as rq:
        queue = Queue("q", connection=rq, serializer=JSONSerializer)
        sent = queue.enqueue(JOB_FUNCTION)
        rq.hset(
            sent.key,
            mapping={
                "success_callback_name": "os.getcwd",
                "failure_callback_name": "os.getcwd",
                "stopped_callback_name": "os.getcwd",
                "retries_left": 3,
                "webhooks": json.dumps([{"url": "http://127.0.0.1:9/", "statuses": ["failed"]}]),
            },
        )
        job = job_module.InertJob.fetch(sent.id, connection=rq, serializer=JSONSerializer)
        assert (job.success_callback, job.failure_callback, job.stopped_callback) == (None, None, None)
        assert (job.webhooks, job.should_retry) == ([], False)
