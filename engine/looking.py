"""Looking: turns, sessions and open items as clients are shown them. Reads only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

import orjson

from engine import views
from engine.projection import states_of
from engine.store import keys as k
from engine.store.store import Store, decoded
from engine.views import OpenItem, SessionView, TurnView
from protocol.errors import AlreadyDecided, ItemClosed, NotFound


class Looking:
    """``anyone_alive``: does some worker beat? A queued turn's note depends on it."""

    def __init__(self, store: Store, anyone_alive: Callable[[], bool]) -> None:
        self.store = store
        self._anyone_alive = anyone_alive

    async def turn(self, tenant: str, turn_id: str) -> TurnView:
        view = await self._turn_view(tenant, k.turn_ref(tenant, turn_id))
        if view is None:
            raise NotFound(f"there is no turn {turn_id}")
        return view

    async def _turn_view(self, tenant: str, ref: str) -> TurnView | None:
        keys = self.store.keys_for(tenant)
        flat, n_events = await asyncio.gather(
            self.store.connection.command("HGETALL", keys.turn(ref)),
            self.store.connection.command("XLEN", keys.events(ref)),
        )
        fields = decoded(flat)
        if not fields:
            return None
        blocking = await self._blocking(tenant, fields) if fields["state"] == "waiting" else None
        return views.turn_view(fields, ref, n_events, note=self._note(fields), blocking=blocking)

    def _note(self, fields: dict[str, str]) -> str | None:
        if fields["state"] != "queued":
            return None
        if note := fields.get("note"):
            return note
        return None if self._anyone_alive() else "waiting for a worker"

    async def _blocking(self, tenant: str, fields: dict[str, str]) -> OpenItem | None:
        session = await self.store.session_fields(tenant, fields["session"])
        active = session.get("active")
        return await self.open_item_of(tenant, active) if active else None

    async def session(self, tenant: str, agent: str, session_id: str) -> SessionView:
        session = k.session_ref(tenant, agent, session_id)
        fields = await self.store.session_fields(tenant, session)
        if not fields:
            raise NotFound(f"agent {agent} has no session {session_id}")
        refs, records = await asyncio.gather(self.store.turn_refs(tenant, session), self.store.log(tenant, session))
        turns = [fields for fields in await asyncio.gather(*(self._turn_line(tenant, ref) for ref in refs)) if fields]
        states = states_of(records)
        current = fields.get("active") or fields.get("last") or ""
        state = next((turn["state"] for turn in turns if turn["turnId"] == k.turn_id_of(current)), "done")
        return SessionView(
            session_id=session_id,
            agent=agent,
            state=state if fields.get("active") else "idle",
            turn_id=k.turn_id_of(current) if current else None,
            item=await self.open_item_of(tenant, current) if current else None,
            turns=turns,
            messages=views.transcript(states, k.turn_id_of(current) if current else None, state),
            usage=views.usage_of(states),
        )

    async def current_turn(self, tenant: str, agent: str, session_id: str) -> str | None:
        """Id of the session's active turn, else of its last one. One read, however long the session is."""
        fields = await self.store.session_fields(tenant, k.session_ref(tenant, agent, session_id))
        if not fields:
            raise NotFound(f"agent {agent} has no session {session_id}")
        current = fields.get("active") or fields.get("last")
        return k.turn_id_of(current) if current else None

    async def _turn_line(self, tenant: str, ref: str) -> dict[str, Any] | None:
        keys = self.store.keys_for(tenant)
        state, out = await self.store.connection.command("HMGET", keys.turn(ref), "state", "out")
        if state is None:
            return None
        line = {"turnId": k.turn_id_of(ref), "state": state.decode()}
        stop = orjson.loads(out).get("stopReason") if out else None
        return line | {"stopReason": stop} if stop else line

    async def sessions(self, tenant: str, agent: str | None = None, limit: int = 50) -> list[dict[str, Any]]:
        """The tenant's sessions, latest first: sessionId, agent, state, turnId."""
        lines: list[dict[str, Any]] = []
        for session in await self.store.session_refs(tenant, 1000 if agent else limit):
            fields = await self.store.session_fields(tenant, session)
            if not fields or (agent and fields["agent"] != agent):
                continue
            current = fields.get("active") or fields.get("last") or ""
            line = await self._turn_line(tenant, current) if current else None
            state = line["state"] if line and fields.get("active") else "idle"
            turn_id = k.turn_id_of(current) if current else None
            lines.append({"sessionId": fields["id"], "agent": fields["agent"], "state": state, "turnId": turn_id})
            if len(lines) == limit:
                break
        return lines

    async def inbox(self, tenant: str, kind: Literal["approval", "question"] | None = None) -> list[OpenItem]:
        """The tenant's open items, oldest first."""
        refs = [k.turn_ref(tenant, item.split(".", 1)[0]) for item in await self.store.open_items(tenant)]
        found = await asyncio.gather(*(self.open_item_of(tenant, ref) for ref in refs))
        return [item for item in found if item and kind in (None, item.kind)]

    async def item(self, tenant: str, item_id: str) -> OpenItem:
        """Raises NotFound; AlreadyDecided or ItemClosed when it is no longer open."""
        ref, fields = await self.turn_of_item(tenant, item_id)
        item = views.open_item(fields, ref)
        if item and item.id == item_id:
            return item
        won = fields.get(f"d:{item_id}")
        if won is None:
            raise NotFound(f"there is no open item {item_id}")
        fingerprint, _, decision = won.partition("\n")
        if fingerprint in ("expired", "superseded"):
            raise ItemClosed(f"{item_id} is no longer open: {fingerprint}")
        raise AlreadyDecided(f"{item_id} was already decided", decision=orjson.loads(decision))

    async def turn_of_item(self, tenant: str, item_id: str) -> tuple[str, dict[str, str]]:
        ref = k.turn_ref(tenant, item_id.split(".", 1)[0])
        fields = await self.store.turn_fields(tenant, ref)
        if not fields:
            raise NotFound(f"there is no open item {item_id}")
        return ref, fields

    async def open_item_of(self, tenant: str, ref: str) -> OpenItem | None:
        return views.open_item(await self.store.turn_fields(tenant, ref), ref)
