"""Opening the store of a deployment from its settings."""

from __future__ import annotations

from engine.settings import Settings
from engine.store.connection import Connection, client
from engine.store.store import Store


async def open_store(settings: Settings, redis_url: str, *, patience_s: float | None) -> Store:
    """Connect and load the scripts. Raises StoreUnavailable, StoreUnsuitable."""
    # From the last write of an owner that hangs to its release: it stands still, it is killed or its lease is over, and
    # a sweep comes by. What a dead owner did not use must not be counted: nobody may be there to release it for hours.
    lost_s = settings.blocked_s + settings.lease_s + settings.sweep_s
    store = Store(Connection(client(redis_url), patience_s), settings.partitions, settings.retention_s, lost_s)
    try:
        await store.open()
    except BaseException:
        await store.connection.aclose()
        raise
    return store
