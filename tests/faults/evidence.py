"""Everything that can be seen after a run: what the API answers, the event streams, the log, the sets of what is
due, running and open, the ledger, and what clients were told on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from engine.runtime import Runtime
from engine.store import keys as k
from engine.store.store import Entry
from protocol.errors import NotFound
from tests.faults.ledger import Line

Json = dict[str, Any]


@dataclass
class TurnSeen:
    """``state``: None if there is no such turn. ``read_before``: events as readers saw them during the run."""

    turn_id: str
    state: str | None
    item: str | None
    entries: list[Entry] = field(default_factory=list)
    read_before: list[list[Entry]] = field(default_factory=list)

    @property
    def events(self) -> list[Json]:
        return [orjson.loads(entry.event) for entry in self.entries]


@dataclass
class Evidence:
    """``logs``: session id -> records. ``answers``: what clients were told ({did, ...}). ``deaths``: how many worker
    processes died. ``lost``: (turn, first 8 characters of a claim, number of events when that claim was taken away).
    ``running``, ``ready``, ``busy``: turn ids. ``foreign``: what another tenant was shown. ``erased``: sessions that
    a client was told are gone, ``leftovers``: keys of theirs."""

    turns: dict[str, TurnSeen] = field(default_factory=dict)
    logs: dict[str, list[Json]] = field(default_factory=dict)
    ledger: Sequence[Line] = ()
    answers: Sequence[Line] = ()
    inbox: list[str] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    ready: list[str] = field(default_factory=list)
    busy: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    deaths: int = 0
    lost: Sequence[tuple[str, str, int]] = ()
    erased: bool = False
    leftovers: list[str] = field(default_factory=list)


async def gather(
    runtime: Runtime,
    raw: Any,
    *,
    tenant: str,
    sessions: Sequence[str],
    agent: str = "agent",
    ledger: Sequence[Line] = (),
    answers: Sequence[Line] = (),
    deaths: int = 0,
    lost: Sequence[tuple[str, str, int]] = (),
    read_before: dict[str, list[list[Entry]]] | None = None,
    onlooker: str = "somebody-else",
) -> Evidence:
    """``raw``: a synchronous client, for the sets that no API shows."""
    keys, th = runtime.store.keys_for(tenant), k.tenant_hash(tenant)
    seen = Evidence(ledger=ledger, answers=answers, deaths=deaths, lost=lost)
    seen.erased = any(answer["did"] == "erase" for answer in answers)
    turn_ids = [answer["turn"] for answer in answers if answer["did"] == "say"]
    for session in sessions:
        ref = k.session_ref(tenant, agent, session)
        seen.logs[session] = await runtime.store.log(tenant, ref)
        turn_ids += [k.turn_id_of(turn) for turn in await runtime.store.turn_refs(tenant, ref)]
        if seen.erased:
            seen.leftovers += [key.decode() for key in raw.keys(f"*{ref}*")]
    for turn_id in dict.fromkeys(turn_ids):
        seen.turns[turn_id] = await _turn(runtime, tenant, turn_id)
        seen.turns[turn_id].read_before = (read_before or {}).get(turn_id, [])
        seen.foreign += await _shown_to(runtime, onlooker, turn_id)
    seen.inbox = [item.id for item in await runtime.inbox(tenant)]
    seen.foreign += [item.id for item in await runtime.inbox(onlooker)]
    seen.running = [member.decode().split("|")[1].split(".")[1] for member in raw.zrange(keys.running, 0, -1)]
    seen.ready = [ref.decode().split(".")[1] for ref in raw.zrange(f"{keys.prefix}ready:{th}", 0, -1)]
    seen.busy = [ref.decode().split(".")[1] for ref in raw.smembers(f"{keys.prefix}busy:{th}")]
    return seen


async def _turn(runtime: Runtime, tenant: str, turn_id: str) -> TurnSeen:
    try:
        view = await runtime.turn(tenant, turn_id)
    except NotFound:
        return TurnSeen(turn_id, None, None)
    entries = await runtime.events(tenant, turn_id)
    return TurnSeen(turn_id, view.state, view.item.id if view.item else None, entries)


async def _shown_to(runtime: Runtime, onlooker: str, turn_id: str) -> list[str]:
    try:
        await runtime.turn(onlooker, turn_id)
    except NotFound:
        return []
    return [turn_id]
