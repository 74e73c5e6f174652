"""Deciding: a person's word on an open item, applied once, whoever says it again or says otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Literal

import orjson

from engine import views
from engine.looking import Looking
from engine.plan import OUTCOME_ANSWERS
from engine.records import person_decided
from engine.store import keys as k
from engine.store.store import Store
from engine.store.waker import Waker
from engine.turn import encoded
from engine.views import OpenItem
from protocol.errors import AlreadyDecided, DigestMismatch, InvalidRequest, ItemClosed, ItemExpired, NotFound
from protocol.json_text import dumps

LONGEST_ANSWER = 20_000


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


class Deciding:
    def __init__(self, store: Store, waker: Waker, looking: Looking) -> None:
        self.store = store
        self.waker = waker
        self.looking = looking

    async def settle(self, tenant: str, item_id: str, decision: Decision) -> Decided:
        """Store a person's decision on an open item; one wins, a repeat of it gets the same answer.

        Raises NotFound, AlreadyDecided, ItemClosed, ItemExpired, DigestMismatch, InvalidRequest."""
        ref, fields = await self.looking.turn_of_item(tenant, item_id)
        item = views.open_item(fields, ref)
        if item and item.id == item_id:
            self._check_decision(item, decision)
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        is_open = item is not None and item.id == item_id
        digest = orjson.loads(fields["card"])["digest"] if is_open else decision.digest or ""
        told = {"what": decision.what, "by": decision.by, "at": at, "digest": digest}
        record = person_decided(item_id, decision.what, decision.by, at, digest, decision.text)
        settlement = self.store.settle(
            tenant,
            ref,
            fields["session"],
            item_id,
            self._fingerprint(decision),
            decision.digest or "",
            dumps(told),
            encoded(record | {"turn": k.turn_id_of(ref)}),
        )
        # A repeat wakes as well: whoever decided first may have died before its wake-up.
        found = await self.waker.after(settlement, k.turn_id_of(ref))
        match found.answer:
            case "APPLIED" | "SAME":
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
            way = "answer it (POST /questions/{id}/answer, or `loopengine questions answer`)"
            way = way if item.kind == "question" else "approve or deny it"
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


def _article(kind: str) -> str:
    return "an approval" if kind == "approval" else "a question"
