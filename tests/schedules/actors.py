"""The actors of a schedule: workers, persons who decide, clients who cancel, and the sweeper. Each is an endless
task that waits at the gate before and after everything it does outside itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from engine.drafts import Terms
from engine.loop import run_turn
from engine.perform import Services
from engine.plan import IT_FAILED, IT_HAPPENED, RUN_AGAIN
from engine.runtime import Decision, NewTurn
from engine.store.keys import Keys
from engine.store.store import Claim, new_token
from engine.turn import Turn
from protocol.errors import Conflict, NotFound, TurnLost
from tests.schedules.gate import ACTOR
from tests.schedules.world import Message, World


def start(name: str, actor: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    async def play() -> None:
        ACTOR.set(name)
        await actor

    return asyncio.create_task(play(), name=name)


async def worker(world: World, name: str) -> None:
    """Claim, run, again; with the comparison that finds turns whose claim's reply was lost."""
    while True:
        for keys in world.partitions:
            await world.store.connection.command("HINCRBY", keys.beats, name, 1)
            await release_own_orphans(world, keys, name)
            claim = await world.store.claim(keys, name, new_token(), tenant_limit=0, suspects=True)
            if isinstance(claim, Claim):
                await run_claim(world, keys, claim)


async def release_own_orphans(world: World, keys: Keys, name: str) -> None:
    """This worker runs one turn at a time, so between two turns whatever is listed under its name is an orphan."""
    listed = await world.store.connection.command("ZRANGEBYLEX", keys.running, f"[{name}|", f"({name}}}")
    orphans = [member.decode().split("|")[1] for member in listed]
    if orphans:
        world.refused["orphan"] += 1
        await world.store.release(keys, name, "own", deaths=0, own=orphans)


async def run_claim(world: World, keys: Keys, claim: Claim) -> None:
    import orjson

    terms = Terms(
        turn_id=claim.turn_id,
        session_id=claim.fields["sid"],
        tenant=claim.fields["tenant"],
        environment=claim.fields["env"],
        agent="agent",
        message=orjson.loads(claim.fields["input"])["message"],
        claim=claim.token,
        max_turns=world.agent.max_turns,
        approval_expiry_s=world.rng.choice([None, None, None, 0.001]),
    )
    model = world.agent.custom_model
    assert model is not None
    try:
        await run_turn(Turn(world.store, keys, claim, terms), world.agent, Services(model, 600.0, at_once))
    except TurnLost as lost:
        world.refused[type(lost).__name__] += 1


async def at_once() -> None:
    return


async def client(world: World, messages: list[Message]) -> None:
    """Sends the messages, now and then twice under one idempotency key."""
    for message in messages:
        await world.gate.step()
        new = NewTurn(
            message.tenant, "test", "agent", f"please: {message.turn}", message.session, idempotency_key=message.turn
        )
        for _ in range(world.rng.choice([1, 1, 2])):
            accepted = await world.runtime.accept(new)
            assert world.lost_suffixes or message.turn_id in ("", accepted.turn_id)
            message.turn_id = accepted.turn_id


async def person(world: World) -> None:
    while True:
        tenant = world.rng.choice(["acme", "bolt"])
        await world.gate.step()
        items = await world.runtime.inbox(tenant)
        if not items:
            continue
        item = world.rng.choice(items)
        for _ in range(world.rng.choice([1, 1, 2])):
            if item.is_outcome:
                decision = Decision("answer", "person", text=world.rng.choice([RUN_AGAIN, IT_HAPPENED, IT_FAILED]))
            elif item.kind == "question":
                decision = Decision("answer", "person", text="blue")
            else:
                what = world.rng.choice(["approve", "approve", "deny"])
                decision = Decision(what, "person", digest=item.card["digest"])  # type: ignore[arg-type]
            try:
                await world.runtime.settle(tenant, item.id, decision)
            except (Conflict, NotFound) as refused:
                world.refused[type(refused).__name__] += 1
            else:
                # A repeat counts as well: it may be ours, with the first reply lost.
                world.decided.add((item.id, decision.text or decision.what))


async def canceller(world: World, message: Message) -> None:
    try:
        turn_id = await world.runtime.cancel(message.tenant, "agent", message.session)
    except NotFound:
        return
    if turn_id:
        world.cancelled.add(turn_id)


async def sweeper(world: World, dead: set[str]) -> None:
    """Releases what died; and sometimes, wrongly, what did not."""
    while True:
        for keys in world.partitions:
            flat = await world.store.connection.command("HGETALL", keys.beats)
            beats = {flat[i].decode(): flat[i + 1].decode() for i in range(0, len(flat), 2)}
            for name, counter in beats.items():
                if name in dead or world.rng.random() < 0.02:
                    await world.store.release(keys, name, counter)
            members = await world.store.connection.command("ZRANGE", keys.running, 0, -1)
            for owner in sorted({member.decode().split("|")[0] for member in members} - beats.keys()):
                await world.store.release(keys, owner, "")
