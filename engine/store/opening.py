"""Opening the store of a deployment from its settings."""

from __future__ import annotations

from engine.settings import Settings
from engine.store.connection import Connection, client
from engine.store.store import Store


async def open_store(settings: Settings, redis_url: str, *, patience_s: float | None) -> Store:
    """Connect and load the scripts. Raises StoreUnavailable, StoreUnsuitable."""
    store = Store(Connection(client(redis_url), patience_s), settings.partitions, settings.retention_s)
    try:
        await store.open()
    except BaseException:
        await store.connection.aclose()
        raise
    return store
