"""What clients can do with turns: accept, settle, cancel, look, follow. API and CLI are thin shells around this.

Owns no agent loop: accepted and settled turns are run by whatever worker claims them.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import string
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Literal

import orjson
import structlog

from engine import drafts, views
from engine.agents.registry import AgentRegistry
from engine.drafts import Draft, Terms
from engine.fold import State
from engine.plan import OUTCOME_ANSWERS
from engine.projection import states_of
from engine.records import person_decided
from engine.settings import Settings
from engine.store import keys as k
from engine.store.connection import Connection, client
from engine.store.liveness import Watch
from engine.store.opening import open_store
from engine.store.store import Acceptance, Commit, Ending, Entry, Store, decoded
from engine.store.tail import HEAL_S, Ear, Tail
from engine.store.wake import Wake
from engine.turn import encoded
from engine.views import OpenItem, SessionView, TurnView
from protocol.errors import (
    AlreadyDecided,
    DigestMismatch,
    InvalidRequest,
    ItemClosed,
    ItemExpired,
    KeyReused,
    Moved,
    NotFound,
    SessionBusy,
    StoreUnavailable,
    TooManyWaiting,
    TurnDone,
    TurnGone,
)
from protocol.json_text import canonical, dumps

log = structlog.get_logger()

_ALPHABET = string.ascii_letters + string.digits
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
LONGEST_SESSION_ID = 256
LONGEST_ANSWER = 20_000

OnBusy = Literal["queue", "reject", "interrupt"]


def new_id(prefix: str) -> str:
    """131 random bits: ids are unguessable, and still not the only guard."""
    return prefix + "".join(secrets.choice(_ALPHABET) for _ in range(22))


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


@dataclass(frozen=True, slots=True)
class Decision:
    """``text``: the reason of a denial, or the answer to a question."""

    what: Literal["approve", "deny", "answer"]
    by: str
    digest: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Decided:
    turn_id: str
    session_id: str
    agent: str
    applied: bool
    decision: dict[str, Any]
    n_events: int


class Runtime:
    """Safe to share between tasks of one event loop; open it with `open_runtime`."""

    def __init__(self, store: Store, tail: Tail, wake: Wake, rq: Connection, agents: AgentRegistry, settings: Settings):
        self.store = store
        self.tail = tail
        self.agents = agents
        self.settings = settings
        self._wake = wake
        self._rq = rq
        self._watch = Watch(settings.lease_s)
        self._watching: asyncio.Task[None] | None = None

    # -- accepting

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
                await self.cancel(new.tenant, new.agent, session_id)
        turn_id = new_id("t_")
        found = await self.store.accept(
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
        if found.answer == "NEW":
            if found.state == "queued":
                await self.wake(turn_id)
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
        item = await self._open_item_of(new.tenant, found.ref)
        raise SessionBusy(
            f"turn {active} of session {session_id} has not ended; nothing was stored",
            turnId=active,
            item=item.card if item else None,
        )

    # -- deciding

    async def settle(self, tenant: str, item_id: str, decision: Decision) -> Decided:
        """Store a person's decision on an open item; one wins, a repeat of it gets the same answer.

        Raises NotFound, AlreadyDecided, ItemClosed, ItemExpired, DigestMismatch, InvalidRequest."""
        ref, fields = await self._turn_of_item(tenant, item_id)
        item = views.open_item(fields, ref)
        if item and item.id == item_id:
            self._check_decision(item, decision)
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        digest = orjson.loads(fields["card"])["digest"] if item else decision.digest or ""
        told = {"what": decision.what, "by": decision.by, "at": at, "digest": digest}
        record = person_decided(item_id, decision.what, decision.by, at, digest, decision.text)
        found = await self.store.settle(
            tenant,
            ref,
            fields["session"],
            item_id,
            self._fingerprint(decision),
            decision.digest or "",
            dumps(told),
            encoded(record | {"turn": k.turn_id_of(ref)}),
        )
        match found.answer:
            case "APPLIED" | "SAME":
                await self.wake(k.turn_id_of(ref))
                applied = found.answer == "APPLIED"
                return Decided(
                    k.turn_id_of(ref), fields["sid"], fields["agent"], applied, found.decision, found.n_events
                )
            case "CONFLICT":
                by, what = found.decision.get("by"), found.decision.get("what")
                raise AlreadyDecided(f"{item_id} was already decided: {what} by {by}", decision=found.decision)
            case "DIGEST":
                raise DigestMismatch(
                    f"{item_id} shows other arguments than those decided on; look at it again", digest=found.detail
                )
            case "EXPIRED":
                raise ItemExpired(f"the time to decide {item_id} is over; it counts as denied")
            case "CLOSED":
                raise ItemClosed(f"{item_id} is no longer open: its turn went on without it")
            case _:
                raise NotFound(f"there is no open item {item_id}")

    def _check_decision(self, item: OpenItem, decision: Decision) -> None:
        if (decision.what == "answer") != (item.kind == "question"):
            way = "answer it with POST /questions/{id}/answer" if item.kind == "question" else "approve or deny it"
            raise InvalidRequest(f"{item.id} is {_article(item.kind)}: {way}")
        if decision.what != "answer":
            return
        text = decision.text or ""
        if not text.strip():
            raise InvalidRequest("answer: must not be empty or blank")
        if len(text) > LONGEST_ANSWER:
            raise InvalidRequest(f"answer: {len(text)} characters are more than the {LONGEST_ANSWER} that are taken")
        if item.is_outcome and text not in OUTCOME_ANSWERS:
            raise InvalidRequest(f"answer: must be exactly one of {', '.join(map(repr, OUTCOME_ANSWERS))}")

    @staticmethod
    def _fingerprint(decision: Decision) -> str:
        if decision.what != "answer":
            return decision.what
        return "answer:" + sha256((decision.text or "").encode("utf-8", "surrogatepass")).hexdigest()[:32]

    # -- cancelling

    async def cancel(self, tenant: str, agent: str, session_id: str) -> str | None:
        """End the session's active turn with stopReason `cancelled`; its id, or None if none was active.

        Needs no worker: the closing is written here, and the owner learns it from its next write."""
        session = k.session_ref(tenant, agent, session_id)
        fields = await self.store.session_fields(tenant, session)
        if not fields:
            raise NotFound(f"agent {agent} has no session {session_id}")
        active = fields.get("active", "")
        if not active or not await self._force_end(tenant, session, active):
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
                await self.wake(k.turn_id_of(next_ref))
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

    # -- looking

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
        return await self._open_item_of(tenant, active) if active else None

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
            item=await self._open_item_of(tenant, current) if current else None,
            turns=turns,
            messages=views.transcript(states, k.turn_id_of(current) if current else None, state),
            usage=views.usage_of(states),
        )

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
        found = await asyncio.gather(*(self._open_item_of(tenant, ref) for ref in refs))
        return [item for item in found if item and kind in (None, item.kind)]

    async def item(self, tenant: str, item_id: str) -> OpenItem:
        """Raises NotFound; AlreadyDecided or ItemClosed when it is no longer open."""
        ref, fields = await self._turn_of_item(tenant, item_id)
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

    async def _turn_of_item(self, tenant: str, item_id: str) -> tuple[str, dict[str, str]]:
        ref = k.turn_ref(tenant, item_id.split(".", 1)[0])
        fields = await self.store.turn_fields(tenant, ref)
        if not fields:
            raise NotFound(f"there is no open item {item_id}")
        return ref, fields

    async def _open_item_of(self, tenant: str, ref: str) -> OpenItem | None:
        return views.open_item(await self.store.turn_fields(tenant, ref), ref)

    # -- following

    async def events(self, tenant: str, turn_id: str) -> list[Entry]:
        ref = k.turn_ref(tenant, turn_id)
        entries: list[Entry] = []
        while True:
            page = await self.store.entries(tenant, ref, entries[-1].n if entries else 0)
            entries += page
            if len(page) < 1000:
                return entries

    def follow(self, tenant: str, turn_id: str, after: int = 0) -> AsyncGenerator[Entry | None, None]:
        """Entries behind ``after``, live, ending behind `done`; None after each pause of a heartbeat."""
        ref = k.turn_ref(tenant, turn_id)
        return self.tail.follow(tenant, ref, after, idle_s=self.settings.heartbeat_s)

    async def cursor_holds(self, tenant: str, turn_id: str, n: int, writer: str) -> bool:
        """Is event ``n`` of the turn still the one that ``writer`` wrote?"""
        page = await self.store.entries(tenant, k.turn_ref(tenant, turn_id), n - 1, 1)
        return bool(page) and page[0].n == n and page[0].writer == writer

    async def settled_view(self, tenant: str, turn_id: str, wait_s: float) -> TurnView:
        """The turn's view as soon as it is done, parked, or behind a parked one; at the latest after ``wait_s``."""
        ref = k.turn_ref(tenant, turn_id)
        deadline = time.monotonic() + wait_s
        with contextlib.ExitStack() as stack:
            ear = stack.enter_context(self.tail.ear(ref))
            await self.tail.subscribed()
            hears_active = False
            while True:
                view = await self.turn(tenant, turn_id)
                left_s = deadline - time.monotonic()
                if view.state in ("done", "parked") or view.blocking or left_s <= 0:
                    return view
                if view.state == "waiting" and not hears_active:
                    hears_active = await self._hear_active(stack, ear, tenant, view)
                    continue
                await ear.wait(min(left_s, HEAL_S))
                ear.overflowed = False
                ear.take()

    async def _hear_active(self, stack: contextlib.ExitStack, ear: Ear, tenant: str, view: TurnView) -> bool:
        """A waiting turn's news is that of the turn before it: hear that as well."""
        session = k.session_ref(tenant, view.agent, view.session_id)
        fields = await self.store.session_fields(tenant, session)
        if active := fields.get("active"):
            stack.enter_context(self.tail.ear(active, ear))
        return True

    # -- workers

    async def wake(self, turn_id: str) -> None:
        """A hint that there is work. Losing it costs a sweep, never a turn."""
        keys, args = self._wake.command(turn_id)
        try:
            await self._rq.script("wake", keys, args)
        except StoreUnavailable as error:
            log.warning("wake-up not sent; the sweep will find the turn", turn=turn_id, error=str(error))

    async def workers_alive(self) -> bool:
        if self._watching is None:
            await self._look()
            self._watching = asyncio.create_task(self._keep_watching(), name="worker-watch")
        return self._anyone_alive()

    def _anyone_alive(self) -> bool:
        return self._watching is None or self._watch.anyone_alive(time.monotonic())

    async def _look(self) -> None:
        replies = await asyncio.gather(
            *(self.store.connection.command("HGETALL", keys.beats) for keys in self.store.partitions)
        )
        counters: dict[str, str] = {}
        for flat in replies:
            counters |= decoded(flat)
        self._watch.look(time.monotonic(), counters)

    async def _keep_watching(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            with contextlib.suppress(StoreUnavailable):
                await self._look()

    async def ping(self) -> None:
        """Raises StoreUnavailable when Redis does not answer."""
        await self.store.connection.command("PING")

    async def aclose(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await self.tail.aclose()
        if self._rq is not self.store.connection:
            await self._rq.aclose()
        await self.store.connection.aclose()


def check_session_id(session_id: str) -> None:
    if not 0 < len(session_id) <= LONGEST_SESSION_ID:
        raise InvalidRequest(f"sessionId: must have 1 to {LONGEST_SESSION_ID} characters")
    if _CONTROL.search(session_id) or "/" in session_id:
        raise InvalidRequest("sessionId: must not hold control characters, line breaks or a slash")


def _article(kind: str) -> str:
    return "an approval" if kind == "approval" else "a question"


async def open_runtime(settings: Settings, *, redis_url: str) -> Runtime:
    store = await open_store(settings, redis_url, patience_s=5.0)
    rq = Connection(client(settings.rq_url), 2.0) if settings.rq_url else store.connection
    tail = Tail(store, client(redis_url, timeout_s=None))
    agents = AgentRegistry(settings.agents_dir, settings)
    runtime = Runtime(store, tail, Wake(settings.queue), rq, agents, settings)
    await runtime.workers_alive()
    return runtime
