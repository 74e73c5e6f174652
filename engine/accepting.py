"""Accepting: a message becomes a turn, once, or is refused with nothing written."""

from __future__ import annotations

import contextlib
import re
import secrets
import string
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

from engine.agents.registry import AgentRegistry
from engine.cancelling import Cancelling
from engine.looking import Looking
from engine.settings import Settings
from engine.store import keys as k
from engine.store.store import Acceptance, Store
from engine.store.waker import Waker
from protocol.errors import InvalidRequest, KeyReused, NotFound, SessionBusy, TooManyWaiting
from protocol.json_text import canonical, dumps

_ALPHABET = string.ascii_letters + string.digits
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
LONGEST_SESSION_ID = 256

OnBusy = Literal["queue", "reject", "interrupt"]


@dataclass(frozen=True, slots=True)
class NewTurn:
    tenant: str
    environment: str
    agent: str
    message: str
    session_id: str | None = None
    on_busy: OnBusy = "queue"
    idempotency_key: str | None = None
    context: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    turn_id: str
    session_id: str
    state: str
    repeated: bool = False


def new_id(prefix: str) -> str:
    """131 random bits: ids are unguessable, and still not the only guard."""
    return prefix + "".join(secrets.choice(_ALPHABET) for _ in range(22))


class Accepting:
    def __init__(
        self,
        store: Store,
        agents: AgentRegistry,
        settings: Settings,
        waker: Waker,
        cancelling: Cancelling,
        looking: Looking,
    ) -> None:
        self.store = store
        self.agents = agents
        self.settings = settings
        self.waker = waker
        self.cancelling = cancelling
        self.looking = looking

    async def accept(self, new: NewTurn) -> Accepted:
        """A message becomes a queued or waiting turn, durably, once; or nothing at all.

        Raises NotFound, AgentUnavailable, ModelKeyMissing, InvalidRequest, SessionBusy, KeyReused, TooManyWaiting,
        StoreUnavailable."""
        agent = self.agents.get(new.agent)
        agent.model(self.settings)  # a missing key is told before anything is written
        self._check(new)
        session_id = new.session_id or self._session_id(new)
        if new.on_busy == "interrupt":
            with contextlib.suppress(NotFound):
                await self.cancelling.cancel(new.tenant, new.agent, session_id)
        turn_id = new_id("t_")
        acceptance = self.store.accept(
            tenant=new.tenant,
            agent=new.agent,
            environment=new.environment,
            session_id=session_id,
            turn_id=turn_id,
            input_=dumps({"message": new.message, "context": new.context}),
            event=dumps({"type": "session", "sessionId": session_id, "turnId": turn_id}),
            on_busy="front" if new.on_busy == "interrupt" else new.on_busy,
            max_waiting=self.settings.max_waiting_per_session,
            idempotency_key=new.idempotency_key,
            body_digest=sha256(canonical([new.agent, new.session_id, new.message, new.context])).hexdigest()[:32],
            idempotency_s=self.settings.idempotency_s,
        )
        found = await self.waker.after(acceptance, turn_id)
        if found.answer == "NEW":
            return Accepted(turn_id, session_id, found.state)
        return await self._not_new(new, session_id, found)

    def _check(self, new: NewTurn) -> None:
        if not new.message.strip():
            raise InvalidRequest("message: must not be empty or blank")
        size = len(new.message.encode("utf-8", "surrogatepass"))
        if size > self.settings.max_message_bytes:
            most = self.settings.max_message_bytes
            raise InvalidRequest(f"message: {size} bytes are more than the {most} that are taken")
        if new.session_id is not None:
            check_session_id(new.session_id)

    def _session_id(self, new: NewTurn) -> str:
        """Drawn; or derived from the idempotency key, so that a repeat finds its turn."""
        if new.idempotency_key is None:
            return new_id("s_")
        return "s_" + sha256(canonical([new.tenant, new.agent, new.idempotency_key])).hexdigest()[:32]

    async def _not_new(self, new: NewTurn, session_id: str, found: Acceptance) -> Accepted:
        if found.answer == "SAME":
            return Accepted(k.turn_id_of(found.ref), session_id, found.state or "done", repeated=True)
        if found.answer == "CONFLICT":
            raise KeyReused("this Idempotency-Key was used with another body; send a new key, or the first body again")
        active = k.turn_id_of(found.ref)
        if found.answer == "FULL":
            most = self.settings.max_waiting_per_session
            raise TooManyWaiting(f"{most} messages wait for session {session_id} already", turnId=active)
        item = await self.looking.open_item_of(new.tenant, found.ref)
        raise SessionBusy(
            f"turn {active} of session {session_id} has not ended; nothing was stored",
            turnId=active,
            item=item.card if item else None,
        )


def check_session_id(session_id: str) -> None:
    if not 0 < len(session_id) <= LONGEST_SESSION_ID:
        raise InvalidRequest(f"sessionId: must have 1 to {LONGEST_SESSION_ID} characters")
    if _CONTROL.search(session_id) or "/" in session_id:
        raise InvalidRequest("sessionId: must not hold control characters, line breaks, lone surrogates or a slash")
