"""Each guard of the scripts matters: with its line the promise holds, without it the same steps break the promise."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest
from redis.exceptions import ResponseError

from engine.store.connection import SOURCE
from engine.store.store import Claim
from tests.store.desk import DONE, ITEM, PARK, Desk, open_desk, without

Promise = Callable[[Desk], Awaitable[None]]


async def a_stale_token_is_fenced(desk: Desk) -> None:
    zombie = await desk.running()
    await desk.store.release(desk.keys(), "w", desk.beat())
    await desk.claim("z", "token-of-z-00000")
    assert await desk.commit(zombie) == "FENCED"


async def a_lost_event_is_noticed(desk: Desk) -> None:
    claim = await desk.running()
    assert await desk.commit(claim, more_events=-1) == "MOVED"


async def a_lost_record_is_noticed(desk: Desk) -> None:
    claim = await desk.running()
    await desk.commit(claim, op="step")
    assert await desk.commit(claim, more_events=1, more_log=2, op="next") == "MOVED"


async def a_repeated_commit_is_not_appended_twice(desk: Desk) -> None:
    claim = await desk.running()
    assert [await desk.commit(claim), await desk.commit(claim)] == ["OK", "OK"]


async def nothing_follows_done(desk: Desk) -> None:
    claim = await desk.finished()
    assert await desk.commit(claim, more_events=1, more_log=1, token="", op="late") == "DONE"


async def a_commit_writes_no_turn_that_is_not_there(desk: Desk) -> None:
    claim = Claim("", desk.ref("t_none"), desk.session(), {}, 0, 0, [])
    assert await desk.commit(claim) == "GONE"


async def a_running_turn_leaves_its_worker(desk: Desk) -> None:
    claim = await desk.running()
    await desk.commit(claim, PARK)
    assert desk.raw.zcard(desk.keys().running) == 0


async def a_cancelled_turn_leaves_the_line(desk: Desk) -> None:
    await desk.queued()
    await desk.force()
    assert desk.raw.exists(desk.keys().ready) == 0


async def an_item_that_is_not_open_is_not_decided(desk: Desk) -> None:
    await desk.parked()
    assert (await desk.settle(item="t_1.1.0.9")).answer == "GONE"


async def other_arguments_are_not_approved(desk: Desk) -> None:
    await desk.parked()
    assert (await desk.settle(digest="e" * 32)).answer == "DIGEST"


async def an_expired_item_is_not_approved(desk: Desk) -> None:
    await desk.expired()
    assert (await desk.settle()).answer == "EXPIRED"


async def the_first_decision_wins(desk: Desk) -> None:
    await desk.parked()
    await desk.settle()
    assert (await desk.settle()).answer == "SAME"
    assert (await desk.settle(fingerprint="deny")).answer == "CONFLICT"


async def a_superseded_item_is_closed(desk: Desk) -> None:
    await desk.parked()
    await desk.force()
    assert (await desk.settle()).answer == "CLOSED"


async def a_settled_turn_keeps_no_expiry(desk: Desk) -> None:
    await desk.expired()
    desk.raw.zadd(f"{desk.keys().prefix}ready:{desk.ref().split('.')[0]}", {desk.ref(): 2**52})
    await desk.settle()
    desk.beat()
    assert desk.raw.zscore(desk.keys().ready, desk.ref().split(".")[0]) < 2**51


async def a_living_worker_keeps_its_turns(desk: Desk) -> None:
    await desk.running()
    desk.beat()
    assert await desk.store.release(desk.keys(), "w", "1") == []


async def only_its_own_running_turns_are_released(desk: Desk) -> None:
    await desk.running()
    assert await desk.store.release(desk.keys(), "z", "own", own=[desk.ref()]) == []
    assert desk.state() == "running"


async def a_busy_session_is_refused_on_demand(desk: Desk) -> None:
    await desk.accept("t_1")
    assert (await desk.accept("t_2", on_busy="reject")).answer == "BUSY"


async def a_full_session_takes_no_more(desk: Desk) -> None:
    await desk.accept("t_1")
    assert (await desk.accept("t_2", max_waiting=0)).answer == "FULL"


async def a_repeated_acceptance_makes_no_second_turn(desk: Desk) -> None:
    await desk.accept("t_1")
    assert (await desk.accept("t_1")).answer == "SAME"


async def a_key_stands_for_one_body(desk: Desk) -> None:
    await desk.accept("t_1", key="k")
    assert (await desk.accept("t_2", key="k", digest="other")).answer == "CONFLICT"


async def a_worker_that_nobody_watches_gets_no_turn(desk: Desk) -> None:
    await desk.accept()
    assert await desk.ask() == "UNKNOWN_WORKER"


async def a_lost_reply_costs_no_second_turn(desk: Desk) -> None:
    await desk.accept("t_1")
    await desk.accept("t_2", session="other")
    claim = await desk.claim()
    again = await desk.ask()
    assert isinstance(again, Claim)
    assert again.ref == claim.ref


async def a_tenant_runs_no_more_than_its_limit(desk: Desk) -> None:
    await desk.running()
    await desk.accept("t_2", session="other")
    assert await desk.ask(token="token-2-of-w-000", limit=1) == "NONE"


async def a_second_suspect_is_left_alone(desk: Desk) -> None:
    await desk.running()
    await desk.store.release(desk.keys(), "w", desk.beat())
    desk.beat()
    assert await desk.ask(suspects=False) == "NONE"


async def a_claim_closes_the_item_that_expired(desk: Desk) -> None:
    await desk.expired()
    await desk.claim(token="token-2-of-w-000")
    assert (await desk.settle(item=ITEM)).answer == "EXPIRED"


async def a_turn_that_ended_is_not_run_again(desk: Desk) -> None:
    await desk.finished()
    tenant = desk.ref().split(".")[0]
    desk.raw.zadd(f"{desk.keys().prefix}ready:{tenant}", {desk.ref(): 1})
    desk.raw.zadd(desk.keys().ready, {tenant: 1})
    assert await desk.ask(token="token-2-of-w-000") == "NONE"


async def a_busy_session_is_not_erased(desk: Desk) -> None:
    await desk.running()
    assert await desk.store.erase("acme", desk.session()) == "BUSY"


async def keys_of_an_unfinished_turn_never_expire(desk: Desk) -> None:
    claim = await desk.finished()
    keys = desk.keys()
    assert all(desk.raw.ttl(key) > 0 for key in (keys.turn(claim.ref), keys.events(claim.ref)))


async def the_next_turn_of_the_session_becomes_active(desk: Desk) -> None:
    claim = await desk.running()
    await desk.accept("t_2")
    await desk.commit(claim, DONE)
    assert (await desk.store.session_fields("acme", desk.session()))["active"] == desk.ref("t_2")


@dataclass(frozen=True)
class Guard:
    script: str
    line: str  # what the one line with the guard contains
    promise: Promise


GUARDS = [
    Guard("accept", "if state then return {'SAME', ref, state} end", a_repeated_acceptance_makes_no_second_turn),
    Guard("accept", "{'CONFLICT'", a_key_stands_for_one_body),
    Guard("accept", "{'BUSY'", a_busy_session_is_refused_on_demand),
    Guard("accept", "{'FULL'", a_full_session_takes_no_more),
    Guard("claim", "{'UNKNOWN_WORKER'}", a_worker_that_nobody_watches_gets_no_turn),
    Guard("claim", "held[1] == 'running' and held[2] == token", a_lost_reply_costs_no_second_turn),
    Guard("claim", "redis.call('SADD', prefix .. 'busy:' .. tenant, ref)", a_tenant_runs_no_more_than_its_limit),
    Guard("claim", "'expired\\n", a_claim_closes_the_item_that_expired),
    Guard("commit", "{'GONE'}", a_commit_writes_no_turn_that_is_not_there),
    Guard("commit", "if f[3] == op then", a_repeated_commit_is_not_appended_twice),
    Guard("commit", "{'DONE'}", nothing_follows_done),
    Guard("commit", "{'FENCED'}", a_stale_token_is_fenced),
    Guard("commit", "redis.call('ZREM', KEYS[6], owner .. '|' .. ref)", a_running_turn_leaves_its_worker),
    Guard("commit", "  line_leave(prefix, ref)", a_cancelled_turn_leaves_the_line),
    Guard("commit", "'superseded\\n", a_superseded_item_is_closed),
    Guard("commit", "redis.call('EXPIRE', KEYS[1], ARGV[12])", keys_of_an_unfinished_turn_never_expire),
    Guard("commit", "redis.call('EXPIRE', KEYS[2], ARGV[12])", keys_of_an_unfinished_turn_never_expire),
    Guard("commit", "redis.call('HSET', KEYS[4], 'active', next_ref)", the_next_turn_of_the_session_becomes_active),
    Guard("settle", "if fingerprint == ARGV[4] then", the_first_decision_wins),
    Guard("settle", "state ~= 'parked' or f[2] ~= ARGV[3]", an_item_that_is_not_open_is_not_decided),
    Guard("settle", "tonumber(due) <= now", an_expired_item_is_not_approved),
    Guard("settle", "{'DIGEST'", other_arguments_are_not_approved),
    Guard("settle", "{'CLOSED'", a_superseded_item_is_closed),
    Guard("release", "~= seen then return {} end", a_living_worker_keeps_its_turns),
    Guard("erase", "{'BUSY'", a_busy_session_is_not_erased),
]

# Guards that share their line with something else: (script, the text, what stands there without the guard, promise).
PARTS = [
    ("commit", "first ~= tonumber(ARGV[4]) or ", "", a_lost_event_is_noticed),
    ("commit", " or redis.call('LLEN', KEYS[3]) ~= tonumber(ARGV[5])", "", a_lost_record_is_noticed),
    ("claim", "ARGV[5] == '1' or tonumber(f[2]) == 0", "true", a_second_suspect_is_left_alone),
    ("claim", "f[1] ~= 'queued' and f[1] ~= 'parked'", "false", a_turn_that_ended_is_not_run_again),
    ("release", "mine and f[1] == 'running' and f[2] == worker", "true", only_its_own_running_turns_are_released),
]


def _mutants() -> list[tuple[str, dict[str, bytes], Promise]]:
    mutants = [(f"{g.script}: {g.line}", without(g.script, g.line), g.promise) for g in GUARDS]
    for script, text, instead, promise in PARTS:
        source = SOURCE[script].decode()
        assert source.count(text) == 1, (script, text)
        mutants.append((f"{script}: {text}", {script: source.replace(text, instead).encode()}, promise))
    return mutants


@pytest.mark.parametrize(("changed", "promise"), [pytest.param(c, p, id=name) for name, c, p in _mutants()])
async def test_without_its_guard_a_promise_is_broken(
    redis_url: str, changed: dict[str, bytes], promise: Promise
) -> None:
    async with open_desk(redis_url) as desk:
        await promise(desk)
        desk.raw.flushall()
        await desk.store.open()
    async with open_desk(redis_url, changed=changed) as desk:
        for source in changed.values():
            desk.raw.script_load(source)  # it is a script still
        with pytest.raises((AssertionError, ResponseError)):
            await promise(desk)
