"""Every key of the store: pattern, type, life, owner. Nothing else spells a key, but for scripts, which build
the marked ones (*) under the partition prefix they are given.

    {p} is the partition (a hash tag, so that one partition lives on one node), <th> a hash of the tenant,
    <S> = <th>.<hash of agent and session id>, <T> = <th>.<turn id>. No client text becomes key text: a foreign
    tenant's id leads to another key, one that is not there.

    key                      type    life                     holds
    loop:partitions          string  for ever                 the number of partitions, fixed at first start
    loop:{p}:s:<S>           hash    until erased             id, tenant, agent, active turn, last turn, base, cut
    loop:{p}:s:<S>:log       list    until erased             private records of all its turns, in order
    loop:{p}:s:<S>:wait      list    while turns wait         <T> of turns waiting for their session
    loop:{p}:s:<S>:turns     list    until erased             <T> of all its turns, in order of acceptance
    loop:{p}:t:<T>       (*) hash    retention, once done     state, claim token, owner, last op, item, card, d:<item>
    loop:{p}:t:<T>:ev    (*) stream  retention, once done     its LoopEvents 1-0, 2-0, ...: writer's 8 bytes, JSON
    loop:{p}:ready           zset    while something is due   <th> -> the tenant's place in line (ms)
    loop:{p}:ready:<th>  (*) zset    while something is due   <T> -> due time (queued; parked with an expiry)
    loop:{p}:run             zset    while turns run          "<worker>|<T>" of running turns, all scores 0
    loop:{p}:busy:<th>   (*) set     while turns run          <T> of the tenant's running turns
    loop:{p}:pend:<th>   (*) zset    while items are open     open items -> since when (ms)
    loop:{p}:sess:<th>       zset    until erased             <S> -> time of its last accepted turn (ms)
    loop:{p}:beats           hash    until released           worker -> counter
    loop:{p}:claims          hash    until released           worker -> "<token>|<T>" of its latest claim
    loop:{p}:idem:<th>:<h>   hash    idempotency time         Idempotency-Key (hashed) -> turn, body digest
    loop:{p}:news            channel -                        each commit: turn, first number, entries; none: erased
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

PARTITIONS = "loop:partitions"


def _hash(text: str, length: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]


def tenant_hash(tenant: str) -> str:
    return _hash("tenant\0" + tenant, 12)


def partition_of(tenant: str, partitions: int) -> int:
    return int(_hash("partition\0" + tenant, 8), 16) % partitions


def turn_ref(tenant: str, turn_id: str) -> str:
    """<T>: how a turn is named inside the store."""
    return f"{tenant_hash(tenant)}.{turn_id}"


def session_ref(tenant: str, agent: str, session_id: str) -> str:
    """<S>: how a session is named inside the store. Two agents never share one."""
    return f"{tenant_hash(tenant)}.{_hash(agent + chr(0) + session_id, 32)}"


def tenant_of(ref: str) -> str:
    return ref.split(".", 1)[0]


def turn_id_of(ref: str) -> str:
    return ref.split(".", 1)[1]


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one partition. ``prefix`` is what scripts build further keys from."""

    partition: int

    @property
    def prefix(self) -> str:
        return f"loop:{{{self.partition}}}:"

    def session(self, session: str) -> str:
        return f"{self.prefix}s:{session}"

    def log(self, session: str) -> str:
        return f"{self.prefix}s:{session}:log"

    def waiting(self, session: str) -> str:
        return f"{self.prefix}s:{session}:wait"

    def turns(self, session: str) -> str:
        return f"{self.prefix}s:{session}:turns"

    def turn(self, ref: str) -> str:
        return f"{self.prefix}t:{ref}"

    def events(self, ref: str) -> str:
        return f"{self.prefix}t:{ref}:ev"

    @property
    def ready(self) -> str:
        return f"{self.prefix}ready"

    @property
    def running(self) -> str:
        return f"{self.prefix}run"

    def pending(self, tenant: str) -> str:
        return f"{self.prefix}pend:{tenant}"

    def sessions(self, tenant: str) -> str:
        return f"{self.prefix}sess:{tenant}"

    @property
    def beats(self) -> str:
        return f"{self.prefix}beats"

    @property
    def claims(self) -> str:
        return f"{self.prefix}claims"

    def idempotency(self, tenant: str, key: str) -> str:
        return f"{self.prefix}idem:{tenant}:{_hash(key, 32)}"

    @property
    def news(self) -> str:
        return f"{self.prefix}news"
