"""What clients can do with turns: accept, settle, cancel, look, follow. API and CLI are thin shells around this.

Owns no agent loop: accepted and settled turns are run by whatever worker claims them. What each thing means stands
in accepting.py, deciding.py, cancelling.py and looking.py; here they are put together, with the tail.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator

from engine.accepting import Accepted, Accepting, NewTurn, check_session_id
from engine.agents.registry import AgentRegistry
from engine.cancelling import Cancelling
from engine.deciding import Decided, Deciding, Decision
from engine.looking import Looking
from engine.presence import Presence
from engine.settings import Settings
from engine.store import keys as k
from engine.store.connection import Connection, client
from engine.store.opening import open_store
from engine.store.store import Entry, Store
from engine.store.tail import HEAL_S, Ear, Tail, is_turning_point
from engine.store.waker import Waker
from engine.views import OpenItem, SessionView, TurnView

__all__ = [
    "Accepted",
    "Decided",
    "Decision",
    "Entry",
    "NewTurn",
    "OpenItem",
    "Runtime",
    "SessionView",
    "TurnView",
    "check_session_id",
    "open_runtime",
]


class Runtime:
    """Safe to share between tasks of one event loop; open it with `open_runtime`. ``rq`` is closed with it."""

    def __init__(
        self, store: Store, tail: Tail, waker: Waker, agents: AgentRegistry, settings: Settings, rq: Connection
    ) -> None:
        self.store = store
        self.tail = tail
        self.agents = agents
        self.settings = settings
        self._rq = rq
        self._presence = Presence(store, settings.lease_s)
        looking = Looking(store, self._presence.anyone_alive)
        cancelling = Cancelling(store, waker)
        accepting = Accepting(store, agents, settings, waker, cancelling, looking)
        self.accept = accepting.accept
        self.settle = Deciding(store, waker, looking).settle
        self.cancel = cancelling.cancel
        self.erase = cancelling.erase
        self.turn = looking.turn
        self.session = looking.session
        self.current_turn = looking.current_turn
        self.sessions = looking.sessions
        self.inbox = looking.inbox
        self.item = looking.item

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
                await self._turning_point(ear, min(left_s, HEAL_S))

    @staticmethod
    async def _turning_point(ear: Ear, wait_s: float) -> None:
        """Wait for an event with which a turn stops, for anything missed, or until the time is up. A turn's other
        events are no reason to read it again."""
        deadline = time.monotonic() + wait_s
        while await ear.wait(deadline - time.monotonic()):
            missed, ear.overflowed = ear.overflowed, False
            heard = ear.take()
            if missed or any(is_turning_point(entry.event) for entry in heard):
                return

    async def _hear_active(self, stack: contextlib.ExitStack, ear: Ear, tenant: str, view: TurnView) -> bool:
        """A waiting turn's news is that of the turn before it: hear that as well."""
        session = k.session_ref(tenant, view.agent, view.session_id)
        fields = await self.store.session_fields(tenant, session)
        active = fields.get("active")
        if active and active != k.turn_ref(tenant, view.turn_id):  # it may have become the active one meanwhile
            stack.enter_context(self.tail.ear(active, ear))
        return True

    async def workers_alive(self) -> bool:
        """Does some worker beat? False only after a lease of watching, or when none has ever beaten."""
        await self._presence.begin()
        return self._presence.anyone_alive()

    async def ping(self) -> None:
        """Raises StoreUnavailable when Redis does not answer."""
        await self.store.connection.command("PING")

    async def aclose(self) -> None:
        await self._presence.aclose()
        await self.tail.aclose()
        if self._rq is not self.store.connection:
            await self._rq.aclose()
        await self.store.connection.aclose()


async def open_runtime(settings: Settings, *, redis_url: str) -> Runtime:
    """Raises StoreUnavailable, StoreUnsuitable."""
    store = await open_store(settings, redis_url, patience_s=5.0)
    rq = Connection(client(settings.rq_url), 2.0) if settings.rq_url else store.connection
    tail = Tail(store, client(redis_url, timeout_s=None))
    agents = AgentRegistry(settings.agents_dir, settings)
    runtime = Runtime(store, tail, Waker(rq, store.connection, settings.queue), agents, settings, rq)
    await runtime.workers_alive()
    return runtime
