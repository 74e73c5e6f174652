"""A store on a real Valkey as its callers see it, the states of a turn as places to start from, and everything that
is in the store as a value to compare.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

import redis

from engine.store import keys as k
from engine.store.connection import SOURCE, Connection, client
from engine.store.keys import Keys
from engine.store.store import GO, Acceptance, Claim, Commit, Ending, Settlement, Store
from protocol.errors import Fenced, Moved, TurnDone, TurnGone, TurnLost

TENANT = "acme"
RETENTION_S = 3600
EVENT = b'{"type":"x"}'
RECORD = b'{"t":"x"}'
ITEM = "t_1.1.0.1"
DIGEST = "d" * 32
CARD = '{"kind":"approval"}'
PARK = Ending("park", 0, CARD, ITEM, DIGEST)
PARK_FOR_AN_HOUR = Ending("park", 3_600_000, CARD, ITEM, DIGEST)
DONE = Ending("done", body='{"text":"bye"}')

_ANSWERS: dict[type[TurnLost], str] = {Fenced: "FENCED", Moved: "MOVED", TurnDone: "DONE", TurnGone: "GONE"}
_READ = {
    b"string": lambda raw, key: raw.get(key),
    b"hash": lambda raw, key: raw.hgetall(key),
    b"list": lambda raw, key: raw.lrange(key, 0, -1),
    b"set": lambda raw, key: raw.smembers(key),
    b"zset": lambda raw, key: raw.zrange(key, 0, -1, withscores=True),
    b"stream": lambda raw, key: raw.xrange(key),
}


class ChangedScripts(Connection):
    """Runs the named scripts from texts of its own, so that a test can show what a line of them is for."""

    def __init__(self, redis_client: Any, changed: dict[str, bytes]) -> None:
        super().__init__(redis_client)
        self.changed = changed

    async def script(self, name: str, keys: list[str], args: list[Any]) -> list[Any]:
        if source := self.changed.get(name):
            reply: list[Any] = await self.command("EVAL", source, len(keys), *keys, *args)
            return reply
        return await super().script(name, keys, args)


class Desk:
    def __init__(self, store: Store, raw: Any) -> None:
        self.store = store
        self.raw = raw

    # -- names

    def keys(self, tenant: str = TENANT) -> Keys:
        return self.store.keys_for(tenant)

    def ref(self, turn: str = "t_1", tenant: str = TENANT) -> str:
        return k.turn_ref(tenant, turn)

    def session(self, session: str = "s", tenant: str = TENANT) -> str:
        return k.session_ref(tenant, "agent", session)

    # -- what callers do

    async def accept(
        self,
        turn: str = "t_1",
        session: str = "s",
        tenant: str = TENANT,
        on_busy: Literal["queue", "reject", "front"] = "queue",
        max_waiting: int = 100,
        key: str | None = None,
        digest: str = "body",
    ) -> Acceptance:
        return await self.store.accept(
            tenant=tenant,
            agent="agent",
            environment="test",
            session_id=session,
            turn_id=turn,
            input_=b'{"message":"hello"}',
            event=EVENT,
            on_busy=on_busy,
            max_waiting=max_waiting,
            idempotency_key=key,
            body_digest=digest,
            idempotency_s=60,
        )

    def beat(self, worker: str = "w", tenant: str = TENANT) -> str:
        """The worker beats once; its counter."""
        return str(self.raw.hincrby(self.keys(tenant).beats, worker, 1))

    async def ask(
        self, worker: str = "w", token: str = "token-of-w-00000", tenant: str = TENANT, limit: int = 0,
        suspects: bool = True,
    ) -> Claim | str:  # fmt: skip
        """One claim, whatever it answers."""
        return await self.store.claim(self.keys(tenant), worker, token, tenant_limit=limit, suspects=suspects)

    async def claim(self, worker: str = "w", token: str = "token-of-w-00000", tenant: str = TENANT) -> Claim:
        """One claim that must find a turn."""
        self.beat(worker, tenant)
        claim = await self.ask(worker, token, tenant)
        assert isinstance(claim, Claim), claim
        return claim

    async def commit(
        self,
        claim: Claim,
        ending: Ending = GO,
        *,
        events: Sequence[bytes] = (EVENT,),
        records: Sequence[bytes] = (RECORD,),
        more_events: int = 0,
        more_log: int = 0,
        token: str | None = None,
        op: str = "op-1",
    ) -> str:
        """A commit of the claim's owner (or under another ``token``): "OK", "OK <next turn>" or the refusal's name.
        ``more_events`` and ``more_log``: what the writer believes is there besides what the claim said."""
        commit = Commit(
            ref=claim.ref,
            session=claim.session,
            token=claim.token if token is None else token,
            n_events=claim.n_events + more_events,
            n_log=claim.n_log + more_log,
            events=events,
            records=records,
            ending=ending,
            op=op,
        )
        return await self._send(commit)

    async def force(self, turn: str = "t_1", session: str = "s", tenant: str = TENANT) -> str:
        """End a turn without owning it, as cancelling does."""
        ref = self.ref(turn, tenant)
        keys = self.keys(tenant)
        n_events, n_log = self.raw.xlen(keys.events(ref)), self.raw.llen(keys.log(self.session(session, tenant)))
        return await self._send(
            Commit(ref, self.session(session, tenant), "", n_events, n_log, (EVENT,), (RECORD,), DONE)
        )

    async def _send(self, commit: Commit) -> str:
        keys = next(keys for keys in self.store.partitions if self._belongs(keys, commit.ref))
        try:
            return f"OK {await self.store.commit(keys, commit)}".strip()
        except TurnLost as lost:
            return _ANSWERS[type(lost)]

    def _belongs(self, keys: Keys, ref: str) -> bool:
        tenant = next(t for t in (TENANT, "bolt", "core", "dust") if k.tenant_hash(t) == k.tenant_of(ref))
        return keys == self.keys(tenant)

    async def settle(
        self, item: str = ITEM, fingerprint: str = "approve", digest: str = DIGEST, turn: str = "t_1",
        tenant: str = TENANT,
    ) -> Settlement:  # fmt: skip
        decision = b'{"what":"%s"}' % fingerprint.encode()
        session = self.session(tenant=tenant)
        return await self.store.settle(
            tenant, self.ref(turn, tenant), session, item, fingerprint, digest, decision, RECORD
        )

    # -- what is there

    def state(self, turn: str = "t_1", tenant: str = TENANT) -> str | None:
        state = self.raw.hget(self.keys(tenant).turn(self.ref(turn, tenant)), "state")
        return state.decode() if state else None

    def field(self, name: str, turn: str = "t_1") -> str | None:
        value = self.raw.hget(self.keys().turn(self.ref(turn)), name)
        return None if value is None else value.decode()

    def everything(self) -> dict[str, tuple[Any, int]]:
        """All keys with their contents and the time they expire at (-1: never)."""
        return {
            key.decode(): (_READ[self.raw.type(key)](self.raw, key), self.raw.expiretime(key))
            for key in sorted(self.raw.keys("*"))
        }

    def changed_keys(self, before: dict[str, tuple[Any, int]]) -> set[str]:
        """Keys that are new, gone or different, with the parts that vary left out of their names."""
        now = self.everything()
        changed = {key for key in before.keys() | now.keys() if before.get(key) != now.get(key)}
        return {self._short(key) for key in changed}

    def _short(self, key: str) -> str:
        for tenant in (TENANT, "bolt", "core", "dust"):
            key = key.removeprefix(self.keys(tenant).prefix).replace(f"{k.tenant_hash(tenant)}.", "")
            key = key.replace(k.session_ref(tenant, "agent", "s").split(".")[1], "s")
            key = key.replace(f":{k.tenant_hash(tenant)}", f":{tenant}")
        return key

    def let_expire(self, turn: str = "t_1") -> None:
        """Move the item's end into the past."""
        keys = self.keys()
        line = f"{keys.prefix}ready:{k.tenant_hash(TENANT)}"
        assert self.raw.zadd(line, {self.ref(turn): 1}, xx=True, ch=True) == 1
        self.raw.zadd(keys.ready, {k.tenant_hash(TENANT): 1})

    # -- the states of a turn t_1 of session "s"; each answers with the claim that its owner has or had

    async def queued(self) -> None:
        await self.accept()

    async def running(self) -> Claim:
        await self.accept()
        return await self.claim()

    async def parked(self, ending: Ending = PARK) -> Claim:
        claim = await self.running()
        assert await self.commit(claim, ending, op="park") == "OK"
        return claim

    async def expired(self) -> Claim:
        claim = await self.parked(PARK_FOR_AN_HOUR)
        self.let_expire()
        return claim

    async def finished(self) -> Claim:
        claim = await self.running()
        assert await self.commit(claim, DONE, op="done") == "OK"
        return claim

    async def waiting(self) -> Claim:
        """t_1 waits behind t_0, which runs on another worker."""
        await self.accept("t_0")
        claim = await self.claim("v", "token-of-v-00000")
        assert (await self.accept()).state == "waiting"
        return claim


@asynccontextmanager
async def open_desk(url: str, partitions: int = 1, changed: dict[str, bytes] | None = None) -> AsyncIterator[Desk]:
    connection = ChangedScripts(client(url), changed or {})
    store = Store(connection, partitions, RETENTION_S)
    raw: Any = redis.Redis.from_url(url)
    try:
        await store.open()
        yield Desk(store, raw)
    finally:
        await connection.aclose()
        raw.close()


def without(script: str, line: str) -> dict[str, bytes]:
    """The script's text without its one line that contains ``line``."""
    lines = SOURCE[script].decode().splitlines()
    found = [number for number, text in enumerate(lines) if line in text]
    assert len(found) == 1, (script, line, found)
    del lines[found[0]]
    return {script: "\n".join(lines).encode()}
