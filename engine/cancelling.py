"""Cancelling and erasing: what ends a turn from outside, without a worker and against its will."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

from engine import drafts
from engine.drafts import Draft, Terms
from engine.fold import State
from engine.projection import states_of
from engine.store import keys as k
from engine.store.store import Commit, Ending, Store, decoded
from engine.store.waker import Waker
from engine.turn import encoded
from protocol.errors import Moved, NotFound, TurnDone, TurnGone
from protocol.json_text import dumps


class Cancelling:
    def __init__(self, store: Store, waker: Waker) -> None:
        self.store = store
        self.waker = waker

    async def cancel(self, tenant: str, agent: str, session_id: str, turn_id: str | None = None) -> str | None:
        """End the session's active turn with stopReason `cancelled`; its id, or None if none was active.

        With ``turn_id`` only that turn: a repeat must not end the one that became active behind it.

        Needs no worker: the closing is written here, and the owner learns it from its next write."""
        session = k.session_ref(tenant, agent, session_id)
        fields = await self.store.session_fields(tenant, session)
        if not fields:
            raise NotFound(f"agent {agent} has no session {session_id}")
        active = fields.get("active", "")
        if (
            not active
            or (turn_id and turn_id != k.turn_id_of(active))
            or not await self._force_end(tenant, session, active)
        ):
            return None
        return k.turn_id_of(active)

    async def _force_end(self, tenant: str, session: str, ref: str) -> bool:
        """False: the turn had ended by itself."""
        keys = self.store.keys_for(tenant)
        while True:
            flat, n_events, raw = await asyncio.gather(
                self.store.connection.command("HGETALL", keys.turn(ref)),
                self.store.connection.command("XLEN", keys.events(ref)),
                self.store.connection.command("LRANGE", keys.log(session), 0, -1),
            )
            fields = decoded(flat)
            if not fields or fields["state"] == "done":
                return False
            draft = self._closing(fields, ref, [orjson.loads(record) for record in raw])
            try:
                next_ref = await self.store.commit(
                    keys,
                    Commit(
                        ref=ref,
                        session=session,
                        token="",
                        n_events=n_events,
                        n_log=len(raw),
                        events=[dumps(event) for event in draft.events],
                        records=[encoded(record | {"turn": k.turn_id_of(ref)}) for record in draft.records],
                        ending=draft.ending or Ending("done"),
                    ),
                )
            except Moved:
                continue  # its owner wrote in between: read again and close what is there now
            except (TurnDone, TurnGone):
                return False
            if next_ref:
                await self.waker.wake(k.turn_id_of(next_ref))
            return True

    @staticmethod
    def _closing(fields: dict[str, str], ref: str, log_records: list[dict[str, Any]]) -> Draft:
        turn_id = k.turn_id_of(ref)
        terms = Terms(
            turn_id=turn_id,
            session_id=fields["sid"],
            tenant=fields["tenant"],
            environment=fields["env"],
            agent=fields["agent"],
            message=orjson.loads(fields["input"])["message"],
            claim="",
        )
        if fields["state"] == "waiting":
            return drafts.close_waiting(terms)
        state = states_of(log_records).get(turn_id) or State(turn_id)
        return drafts.close("cancelled", None, state, terms)

    async def erase(self, tenant: str, agent: str, session_id: str) -> None:
        """Cancel the session's turns and remove all its keys. Raises NotFound."""
        session = k.session_ref(tenant, agent, session_id)
        while True:
            match await self.store.erase(tenant, session):
                case "OK":
                    return
                case "GONE":
                    raise NotFound(f"agent {agent} has no session {session_id}")
            fields = await self.store.session_fields(tenant, session)
            if fields.get("active"):
                await self._force_end(tenant, session, fields["active"])
