"""What must hold after any schedule, told from the store's contents and the ledger that tools wrote outside it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import orjson

from engine.fold import fold
from engine.plan import RUN_AGAIN, next_steps
from engine.projection import messages_of, states_of
from engine.store import keys as k
from protocol.events import validate_event
from tests.schedules.world import TENANTS, World, check_pairs


def check(world: World) -> None:
    for message in world.messages:
        if message.turn_id:
            check_events(world, message.tenant, message.turn_id)
    if not world.lost_suffixes:
        check_ledger(world)  # a store that forgets intents cannot keep effects from being repeated
    for tenant in TENANTS:
        check_logs(world, tenant)
    check_nothing_left(world)


def check_events(world: World, tenant: str, turn_id: str) -> None:
    """Promises 1 and 2: numbers 1..n, `session` first, exactly one `done`, and that last; each valid."""
    keys, ref = world.store.keys_for(tenant), k.turn_ref(tenant, turn_id)
    fields = world.raw.hgetall(keys.turn(ref))
    if not fields and world.lost_suffixes:
        return  # the acceptance itself was lost
    assert fields[b"state"] == b"done", ("stuck", turn_id, fields)
    entries = world.raw.xrange(keys.events(ref))
    assert [entry_id for entry_id, _ in entries] == [f"{n}-0".encode() for n in range(1, len(entries) + 1)]
    events: list[dict[str, Any]] = [orjson.loads(fields[b"e"][8:]) for _, fields in entries]
    for event in events:
        validate_event(event)
    types = [event["type"] for event in events]
    assert types[0] == "session", types
    assert types.count("done") == 1, types
    assert types[-1] == "done", types
    started = [event["id"] for event in events if event["type"] == "tool:started"]
    results = [event["id"] for event in events if event["type"] == "tool:result"]
    assert len(set(started)) == len(started), ("started twice", started)
    assert len(set(results)) == len(results), ("two results", results)
    assert set(started) <= set(results), (started, results)


def check_ledger(world: World) -> None:
    """Promises 4 and 5: an effect happens once, or once more for each "run again"; a gated one only after a yes."""
    times = Counter((turn, path, name) for turn, path, name, _ in world.ledger)
    again = Counter(item.rsplit(".", 1)[0] for item, what in world.decided if what == RUN_AGAIN)
    approved = {item.rsplit(".", 1)[0] for item, what in world.decided if what == "approve"}
    for (turn, path, name), count in times.items():
        assert name != "forbidden", (turn, path)
        if name in ("act", "pay"):
            assert count <= 1 + again[f"{turn}.{path}"], ("effect repeated", turn, path, name, count)
        if name == "pay":
            assert f"{turn}.{path}" in approved, ("ran without approval", turn, path)


def check_logs(world: World, tenant: str) -> None:
    """Promises 3 and 7: turns of a session lie one behind the other; every prefix can be folded, planned and
    projected to a valid request; every call has one result."""
    keys = world.store.keys_for(tenant)
    for name in ("s0", "s1"):
        session = k.session_ref(tenant, "agent", name)
        records = [orjson.loads(raw) for raw in world.raw.lrange(keys.log(session), 0, -1)]
        order = [record["turn"] for record in records]
        blocks = [turn for i, turn in enumerate(order) if i == 0 or order[i - 1] != turn]
        assert len(blocks) == len(set(blocks)), ("interleaved", blocks)
        for length in range(len(records) + 1):
            prefix = records[:length]
            for turn in {record["turn"] for record in prefix[-1:]}:
                next_steps(fold(prefix, turn), "somebody", 6)
            messages = messages_of(states_of(prefix).values())
            if messages and messages[-1]["role"] == "assistant":
                messages.pop()  # its calls are being decided; nothing is sent before they are
            check_pairs(messages)
        for at, count in Counter((r["turn"], r["at"]) for r in records if r["t"] == "result").items():
            assert count == 1, ("second result", at)


def check_nothing_left(world: World) -> None:
    for keys in world.partitions:
        assert world.raw.zcard(keys.ready) == 0
        assert world.raw.zcard(keys.running) == 0
        for tenant in TENANTS:
            th = k.tenant_hash(tenant)
            assert world.raw.zcard(keys.pending(th)) == 0
            assert world.raw.exists(f"{keys.prefix}ready:{th}", f"{keys.prefix}busy:{th}") == 0
            for name in ("s0", "s1"):
                session = k.session_ref(tenant, "agent", name)
                assert world.raw.hget(keys.session(session), "active") in (b"", None)
                assert world.raw.llen(keys.waiting(session)) == 0
