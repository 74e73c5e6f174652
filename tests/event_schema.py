"""Holds every event that tests make to the published schema, with another validator than the product's own.

Two places see them all: the streams that a test leaves in its Valkey, whichever process wrote them, and the store's
own door in processes of the test itself, for streams that are gone when it ends.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest
import redis

from engine.store.keys import Keys
from engine.store.store import Acceptance, Commit, Store

SCHEMA = Path(__file__).resolve().parent.parent / "protocol" / "loop-event.schema.json"
_WRITER = 8  # bytes in front of each event in its stream


@functools.cache
def _validator() -> Any:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)


@functools.lru_cache(maxsize=4096)
def problem_with(event: bytes | str) -> str | None:
    """What is wrong with an event, as JSON text; None: it is valid."""
    found = next(_validator().iter_errors(json.loads(event)), None)
    return None if found is None else f"{event!r} is no event of the protocol: {found.message}"


def problems_in(client: redis.Redis) -> list[str]:
    """Events in the store that the schema refuses, and turns whose numbers are not 1..n."""
    found: list[str] = []
    keys = list(client.scan_iter("loop:*:t:*:ev", count=1000))
    for at in range(0, len(keys), 500):
        pipeline = client.pipeline(transaction=False)
        for key in keys[at : at + 500]:
            pipeline.xrange(key)
        for key, entries in zip(keys[at : at + 500], pipeline.execute(), strict=True):
            found += _problems_in_stream(key.decode(), entries)
    return found


def _problems_in_stream(key: str, entries: list[tuple[bytes, dict[bytes, bytes]]]) -> list[str]:
    ids = [id_.decode() for id_, _ in entries]
    found = [] if ids == [f"{n}-0" for n in range(1, len(ids) + 1)] else [f"{key}: numbers {ids}"]
    for _, fields in entries:
        (event,) = fields.values()
        if problem := problem_with(event[_WRITER:]):
            found.append(f"{key}: {problem}")
    return found


@contextmanager
def watching_the_store() -> Iterator[list[str]]:
    """Collects what is wrong with events that this process writes, as they pass."""
    problems: list[str] = []
    commit, accept = Store.commit, Store.accept

    async def watched_commit(self: Store, keys: Keys, made: Commit) -> str:
        problems.extend(problem for event in made.events if (problem := problem_with(event)))
        return await commit(self, keys, made)

    async def watched_accept(self: Store, **new: Any) -> Acceptance:
        if problem := problem_with(new["event"]):
            problems.append(problem)
        return await accept(self, **new)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "commit", watched_commit)
        patch.setattr(Store, "accept", cast(Any, watched_accept))
        yield problems
