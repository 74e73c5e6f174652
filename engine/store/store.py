"""The typed way to the store: each method is one script or one read, each answer a value or a named exception.

Owns no rules: what may follow what is decided by the scripts and the planner. Every write is safe to repeat.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from engine.store import keys as k
from engine.store.connection import Connection
from engine.store.keys import Keys
from protocol.errors import Fenced, Moved, StoreUnsuitable, TurnDone, TurnGone

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a turn goes on after a commit. ``open``: it runs on like after ``go``, but nothing was finished, so its
    deaths are not forgotten. Times in milliseconds from now; 0 for park: no expiry."""

    kind: Literal["go", "open", "park", "queue", "done"]
    delay_ms: int = 0
    body: str = ""  # park: the card; done: the outcome; queue: a note for the status
    item: str = ""
    digest: str = ""


GO = Ending("go")
OPEN = Ending("open")


@dataclass(frozen=True, slots=True)
class Claim:
    """A turn that this worker owns: its token, its fields, and the lengths that its first commit expects."""

    token: str
    ref: str
    session: str
    fields: dict[str, str]
    n_events: int
    n_log: int
    log: list[Json]
    more: bool = False  # another turn may be due

    @property
    def turn_id(self) -> str:
        return k.turn_id_of(self.ref)

    @property
    def deaths(self) -> int:
        return int(self.fields["deaths"])


@dataclass(frozen=True, slots=True)
class Commit:
    ref: str
    session: str
    token: str  # '' for a forced commit
    n_events: int
    n_log: int
    events: Sequence[bytes]
    records: Sequence[bytes]
    ending: Ending = GO
    op: str = field(default_factory=lambda: secrets.token_hex(8))


@dataclass(frozen=True, slots=True)
class Acceptance:
    answer: Literal["NEW", "SAME", "CONFLICT", "BUSY", "FULL"]
    ref: str
    state: str = ""
    active: str = ""


@dataclass(frozen=True, slots=True)
class Settlement:
    answer: Literal["APPLIED", "SAME", "CONFLICT", "DIGEST", "EXPIRED", "CLOSED", "GONE"]
    decision: Json = field(default_factory=dict)
    n_events: int = 0
    detail: str = ""  # the digest that was shown; the state of a closed turn


@dataclass(frozen=True, slots=True)
class Entry:
    """One event of a turn as it lies in the stream: its number, its writer's 8 bytes, its JSON."""

    n: int
    writer: str
    event: bytes


def entry_of(n: int, raw: bytes) -> Entry:
    return Entry(n, raw[:8].decode("latin-1"), raw[8:])


def decoded(flat: Sequence[bytes]) -> dict[str, str]:
    """HGETALL's flat reply as a dict of text."""
    return {flat[i].decode(): flat[i + 1].decode() for i in range(0, len(flat), 2)}


def new_token() -> str:
    return secrets.token_hex(8)


class Store:
    """All partitions of one deployment. Safe to share between tasks of one event loop."""

    def __init__(self, connection: Connection, partitions: int, retention_s: int, lost_s: float = 45.0) -> None:
        """``lost_s``: a turn counts at most so much running time for an owner that was lost while it worked on it."""
        self.connection = connection
        self.lost_ms = int(lost_s * 1000)
        self.partitions = [Keys(p) for p in range(partitions)]
        self.retention_s = retention_s

    async def open(self) -> None:
        """Load the scripts and hold the deployment to its number of partitions. Raises StoreUnsuitable."""
        await self.connection.load_scripts()
        wanted = len(self.partitions)
        await self.connection.command("SET", k.PARTITIONS, wanted, "NX")
        present = int(await self.connection.command("GET", k.PARTITIONS))
        if present != wanted:
            raise StoreUnsuitable(
                f"this deployment was first started with {present} partition(s) and cannot run with {wanted}: "
                f"set LOOPENGINE_PARTITIONS={present}, or use an empty Redis"
            )

    def keys_for(self, tenant: str) -> Keys:
        return self.partitions[k.partition_of(tenant, len(self.partitions))]

    async def accept(
        self,
        *,
        tenant: str,
        agent: str,
        environment: str,
        session_id: str,
        turn_id: str,
        input_: bytes,
        event: bytes,
        on_busy: Literal["queue", "reject", "front"],
        max_waiting: int,
        idempotency_key: str | None,
        body_digest: str,
        idempotency_s: int,
    ) -> Acceptance:
        keys, th = self.keys_for(tenant), k.tenant_hash(tenant)
        ref, session = k.turn_ref(tenant, turn_id), k.session_ref(tenant, agent, session_id)
        reply = await self.connection.script(
            "accept",
            [
                keys.session(session),
                keys.waiting(session),
                keys.turns(session),
                keys.turn(ref),
                keys.events(ref),
                keys.idempotency(th, idempotency_key or ""),
                keys.sessions(th),
            ],
            [
                keys.prefix,
                ref,
                session,
                body_digest if idempotency_key is not None else "",
                idempotency_s,
                on_busy,
                max_waiting,
                new_token()[:8].encode() + event,
                session_id,
                tenant,
                agent,
                environment,
                input_,
            ],
        )
        return Acceptance(*(part.decode() for part in reply))

    async def claim(
        self, keys: Keys, worker: str, token: str, *, tenant_limit: int, suspects: bool
    ) -> Claim | Literal["NONE", "UNKNOWN_WORKER"]:
        """A due turn under ``token``. One call of a worker at a time: the reply of a lost one is asked for again
        under the same token, and the store remembers only the latest."""
        reply = await self.connection.script(
            "claim",
            [keys.ready, keys.running, keys.beats, keys.claims],
            [keys.prefix, worker, token, tenant_limit, "1" if suspects else "0"],
        )
        if reply[0] != b"OK":
            return reply[0].decode()  # type: ignore[no-any-return]
        _, ref, session, flat, n_events, n_log, log, more = reply
        return Claim(
            token,
            ref.decode(),
            session.decode(),
            decoded(flat),
            n_events,
            n_log,
            [orjson.loads(record) for record in log],
            bool(more),
        )

    async def commit(self, keys: Keys, commit: Commit) -> str:
        """Make records and events durable, atomically. Answers the session's next turn, now queued, or ''.

        Raises Fenced, Moved, TurnDone or TurnGone: then nothing was written."""
        ending = commit.ending
        writer = (commit.token or new_token())[:8].encode()
        reply = await self.connection.script(
            "commit",
            [
                keys.turn(commit.ref),
                keys.events(commit.ref),
                keys.log(commit.session),
                keys.session(commit.session),
                keys.waiting(commit.session),
                keys.running,
                keys.pending(k.tenant_of(commit.ref)),
            ],
            [
                keys.prefix,
                commit.ref,
                commit.token,
                commit.n_events,
                commit.n_log,
                commit.op,
                ending.kind,
                ending.delay_ms,
                ending.body,
                ending.item,
                ending.digest,
                self.retention_s,
                keys.news,
                len(commit.events),
                *(writer + event for event in commit.events),
                *commit.records,
            ],
        )
        if reply[0] == b"OK":
            return str(reply[1].decode())
        turn_id = k.turn_id_of(commit.ref)
        match reply[0]:
            case b"FENCED":
                raise Fenced(f"turn {turn_id} belongs to another claim now; this one stops")
            case b"MOVED":
                raise Moved(f"turn {turn_id} is not where this owner left it (the store lost or gained writes)")
            case b"DONE":
                raise TurnDone(f"turn {turn_id} ended meanwhile")
            case _:
                raise TurnGone(f"turn {turn_id} is not there any more")

    async def settle(
        self,
        tenant: str,
        ref: str,
        session: str,
        item: str,
        fingerprint: str,
        digest: str,
        decision: bytes,
        record: bytes,
    ) -> Settlement:
        keys = self.keys_for(tenant)
        reply = await self.connection.script(
            "settle",
            [keys.turn(ref), keys.log(session), keys.pending(k.tenant_hash(tenant)), keys.events(ref)],
            [keys.prefix, ref, item, fingerprint, digest, decision, record],
        )
        answer = reply[0].decode()
        if answer in ("APPLIED", "SAME", "CONFLICT"):
            return Settlement(answer, orjson.loads(reply[1]), int(reply[2]) if len(reply) > 2 else 0)
        return Settlement(answer, detail=reply[1].decode() if len(reply) > 1 else "")

    async def release(
        self, keys: Keys, worker: str, seen: str, *, deaths: int = 1, own: Sequence[str] = ()
    ) -> list[str]:
        """Put a worker's running turns back into the line; ``seen`` is its counter as watched ('' for none), or
        'own' with the named turns. Answers the released turns."""
        most = 200
        released: list[str] = []
        while True:
            reply = await self.connection.script(
                "release",
                [keys.running, keys.beats, keys.claims],
                [keys.prefix, worker, seen, deaths, most, self.lost_ms, *own],
            )
            released += [ref.decode() for ref in reply]
            if seen == "own" or len(reply) < most:
                return released

    async def erase(self, tenant: str, session: str) -> Literal["OK", "BUSY", "GONE"]:
        keys = self.keys_for(tenant)
        reply = await self.connection.script(
            "erase",
            [
                keys.session(session),
                keys.log(session),
                keys.waiting(session),
                keys.turns(session),
                keys.sessions(k.tenant_hash(tenant)),
            ],
            [keys.prefix, session, keys.news],
        )
        return reply[0].decode()  # type: ignore[no-any-return]

    async def turn_fields(self, tenant: str, ref: str) -> dict[str, str]:
        """The turn's hash; empty when it is not there."""
        return decoded(await self.connection.command("HGETALL", self.keys_for(tenant).turn(ref)))

    async def session_fields(self, tenant: str, session: str) -> dict[str, str]:
        return decoded(await self.connection.command("HGETALL", self.keys_for(tenant).session(session)))

    async def log(self, tenant: str, session: str) -> list[Json]:
        """The whole session log, oldest first."""
        raw = await self.connection.command("LRANGE", self.keys_for(tenant).log(session), 0, -1)
        return [orjson.loads(record) for record in raw]

    async def entries(self, tenant: str, ref: str, after: int = 0, limit: int = 1000) -> list[Entry]:
        """At most ``limit`` events numbered after ``after``."""
        raw = await self.connection.command(
            "XRANGE", self.keys_for(tenant).events(ref), f"({after}-0" if after else "-", "+", "COUNT", limit
        )
        return [entry_of(int(entry_id.split(b"-")[0]), fields[1]) for entry_id, fields in raw]

    async def newest_entry(self, tenant: str, ref: str) -> Entry | None:
        raw = await self.connection.command("XREVRANGE", self.keys_for(tenant).events(ref), "+", "-", "COUNT", 1)
        return next((entry_of(int(entry_id.split(b"-")[0]), fields[1]) for entry_id, fields in raw), None)

    async def open_items(self, tenant: str, limit: int = 1000) -> list[str]:
        """Item ids, oldest first."""
        raw = await self.connection.command(
            "ZRANGE", self.keys_for(tenant).pending(k.tenant_hash(tenant)), 0, limit - 1
        )
        return [item.decode() for item in raw]

    async def turn_refs(self, tenant: str, session: str) -> list[str]:
        raw = await self.connection.command("LRANGE", self.keys_for(tenant).turns(session), 0, -1)
        return [ref.decode() for ref in raw]

    async def session_refs(self, tenant: str, limit: int) -> list[str]:
        """Sessions of the tenant, latest first."""
        key = self.keys_for(tenant).sessions(k.tenant_hash(tenant))
        raw = await self.connection.command("ZRANGE", key, 0, limit - 1, "REV")
        return [ref.decode() for ref in raw]
