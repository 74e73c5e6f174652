"""A claimed turn in a worker's hands: its state, what is on paper but not yet durable, and the commit.

The only writer of a running turn. Losing the claim surfaces as a TurnLost error from `commit`, and everything on
paper is dropped with it: the next owner folds the log and goes on from what was durable.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from datetime import UTC, datetime

import orjson

from engine import drafts
from engine.drafts import Draft, Event, Terms
from engine.fold import State, apply
from engine.limits import Limits
from engine.models.contract import Message
from engine.plan import PaperStep
from engine.projection import messages_of, states_of
from engine.records import Record
from engine.store.keys import Keys
from engine.store.store import GO, OPEN, Claim, Commit, Ending, Store
from protocol.errors import HandedBack
from protocol.json_text import dumps

# A step that takes longer than this shows its opening events (`budget:check`, `tool:started`) at once; a shorter
# one lets them ride on its own commit, which is a round trip and an fsync saved.
OPENING_RIDES_S = 0.02

# Records that nothing depends on until the next outside step has come back: they may wait for its commit.
_SOFT = ("turn", "context")

# Records that say what is about to happen. They are no progress: a step that kills every worker that tries it must
# not look healthy because each of them wrote down that it would try.
_OPENING = (*_SOFT, "started")


class Turn:
    def __init__(self, store: Store, keys: Keys, claim: Claim, terms: Terms) -> None:
        self.store = store
        self.keys = keys
        self.claim = claim
        self.terms = terms
        states = states_of(claim.log)
        self.state = states.pop(claim.turn_id, State(claim.turn_id))
        self.history = messages_of(states.values())
        self.next_turn = ""  # <T> that the last commit made due
        self.left = False
        self.made_progress = False
        self.hand_back = False  # set from outside: give the turn back at the next commit
        self._records: list[Record] = []
        self._events: list[Event] = []
        self._messages: list[Message] | None = None
        self._n_events = claim.n_events
        self._n_log = claim.n_log
        self._committing = asyncio.Lock()
        self._began = time.monotonic()
        self._used_before_ms = self.state.used_ms
        self._lost_ms = int(claim.fields.get("lost", 0))

    def messages(self) -> list[Message]:
        """The provider's view of the session up to now; projected once for the budget and the call."""
        if self._messages is None:
            self._messages = messages_of([self.state], self.history)
        return self._messages

    @property
    def used_ms(self) -> int:
        """Running time of the turn so far, under all its owners."""
        return self._recorded_ms() + self._lost_ms

    def _recorded_ms(self) -> int:
        return self._used_before_ms + int((time.monotonic() - self._began) * 1000)

    def draft(self, draft: Draft) -> None:
        """Take a draft into the state; it becomes durable with the next commit."""
        if draft.records:
            self._messages = None
        for record in draft.records:
            stamped = record | {"turn": self.terms.turn_id, "used": self._recorded_ms()}
            self._records.append(stamped)
            apply(self.state, stamped)
        self._events += draft.events

    @property
    def on_paper(self) -> bool:
        return bool(self._records or self._events)

    @property
    def finished_something(self) -> bool:
        """Is there anything on paper that must be durable before the next outside step begins?"""
        return any(record["t"] not in _SOFT for record in self._records)

    async def commit(self, ending: Ending = GO) -> None:
        """Make everything on paper durable. After an ending other than `go` the turn has left this owner.

        Raises TurnLost (Fenced, Moved, TurnDone, TurnGone; HandedBack after giving it back on request)."""
        async with self._committing:
            handing_back = self.hand_back and ending is GO
            if handing_back:
                ending = Ending("queue", body="handed back by a worker that is shutting down")
            records, events = self._records, self._events
            self._records, self._events = [], []
            progress = any(record["t"] not in _OPENING for record in records)
            self.next_turn = await self.store.commit(
                self.keys,
                Commit(
                    ref=self.claim.ref,
                    session=self.claim.session,
                    token=self.claim.token,
                    n_events=self._n_events,
                    n_log=self._n_log,
                    events=[dumps(event) for event in events],
                    records=[encoded(record) for record in records],
                    ending=OPEN if ending is GO and not progress else ending,
                ),
            )
            self._n_events += len(events)
            self._n_log += len(records)
            self.made_progress = self.made_progress or progress
            self.left = ending is not GO
            if handing_back:
                raise HandedBack(f"turn {self.terms.turn_id} was handed back")

    async def first_of(self, work: Collection[asyncio.Task[Draft]], limits: Limits) -> set[asyncio.Task[Draft]]:
        """Wait until some of ``work`` is done; if that takes its time, what is on paper is flushed meanwhile.

        Empty: the turn's time is over first."""
        if self.on_paper:
            done, _ = await asyncio.wait(work, timeout=OPENING_RIDES_S, return_when=asyncio.FIRST_COMPLETED)
            if done:
                return done
            await self.commit()
        left_s = limits.seconds_left(self.used_ms)
        done, _ = await asyncio.wait(work, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        return done

    def write_down(self, step: PaperStep) -> Ending | None:
        """Put a paper step on paper; answers how it ends this owner's work, if it does."""
        draft = drafts.write_down(step, self.state, self.terms, datetime.now(UTC))
        self.draft(draft)
        return draft.ending


def encoded(record: Record) -> bytes:
    try:
        return orjson.dumps(record)
    except TypeError:  # lone surrogates, NaN, integers over 64 bits: made safe once, here
        return dumps(record)
