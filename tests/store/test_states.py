"""The whole state table: every input in every state, with its answer and the state afterwards. Whatever is not a
transition changes nothing at all.
"""

from __future__ import annotations

import pytest

from engine.store.store import Claim
from tests.store.desk import Desk, open_desk


async def _enter(desk: Desk, state: str) -> None:
    if state != "none":
        await getattr(desk, state)()


def _as_stranger(desk: Desk) -> Claim:
    """Somebody who knows everything about the turn but its token."""
    keys, ref = desk.keys(), desk.ref()
    n_events, n_log = desk.raw.xlen(keys.events(ref)), desk.raw.llen(keys.log(desk.session()))
    return Claim("token-of-nobody-", ref, desk.session(), {}, n_events, n_log, [])


async def _accept_again(desk: Desk) -> str:
    found = await desk.accept()
    return f"{found.answer} {found.state}"


async def _claim(desk: Desk) -> str:
    found = await desk.ask("z", "token-of-z-00000")
    return "OK" if isinstance(found, Claim) else found


async def _commit_of_a_stranger(desk: Desk) -> str:
    return await desk.commit(_as_stranger(desk))


async def _forced_done(desk: Desk) -> str:
    return await desk.force()


async def _settle(desk: Desk) -> str:
    return (await desk.settle()).answer


async def _settle_other_digest(desk: Desk) -> str:
    return (await desk.settle(digest="e" * 32)).answer


async def _settle_other_item(desk: Desk) -> str:
    return (await desk.settle(item="t_1.1.0.2")).answer


async def _release(desk: Desk) -> str:
    """The worker w is taken for dead at the counter that it has."""
    counter = desk.raw.hget(desk.keys().beats, "w")
    return " ".join(await desk.store.release(desk.keys(), "w", counter.decode() if counter else "none")) and "released"


async def _release_after_a_beat(desk: Desk) -> str:
    return " ".join(await desk.store.release(desk.keys(), "w", "0")) and "released"


async def _erase(desk: Desk) -> str:
    return await desk.store.erase("acme", desk.session())


INPUTS = {
    "accept again": _accept_again,
    "claim": _claim,
    "commit of a stranger": _commit_of_a_stranger,
    "forced done": _forced_done,
    "settle": _settle,
    "settle, other digest": _settle_other_digest,
    "settle, other item": _settle_other_item,
    "release": _release,
    "release after a beat": _release_after_a_beat,
    "erase": _erase,
}

# Each cell: the answer, and the state afterwards where it is another one.
TABLE = """
                       none           waiting            queued            running           parked             expired            finished
accept again           NEW_queued:queued  SAME_waiting   SAME_queued       SAME_running      SAME_parked        SAME_parked        SAME_done
claim                  NONE           NONE               OK:running        NONE              NONE               OK:running         NONE
commit of a stranger   GONE           FENCED             FENCED            FENCED            FENCED             FENCED             DONE
forced done            GONE           OK:done            OK:done           OK:done           OK:done            OK:done            DONE
settle                 GONE           GONE               GONE              GONE              APPLIED:queued     EXPIRED            GONE
settle, other digest   GONE           GONE               GONE              GONE              DIGEST             EXPIRED            GONE
settle, other item     GONE           GONE               GONE              GONE              GONE               GONE               GONE
release                -              -                  -                 released:queued   -                  -                  -
release after a beat   -              -                  -                 -                 -                  -                  -
erase                  GONE           BUSY               BUSY              BUSY              BUSY               BUSY               OK:none
"""  # noqa: E501


def _cells() -> list[tuple[str, str, str, str]]:
    head, *rows = TABLE.strip("\n").splitlines()
    states = head.split()
    cells = []
    for row in rows:
        name, answers = row[:23].strip(), row[23:].split()
        for state, cell in zip(states, answers, strict=True):
            answer, _, after = cell.partition(":")
            cells.append((state, name, answer.replace("_", " ").replace("-", ""), after))
    return cells


@pytest.mark.parametrize(("state", "input_", "answer", "after"), _cells())
async def test_an_input_is_a_transition_of_the_table_or_changes_nothing(
    desk: Desk, state: str, input_: str, answer: str, after: str
) -> None:
    await _enter(desk, state)
    desk.beat("z")
    if input_ == "release" and state != "running" and state != "none":
        # Releasing an idle dead worker removes its counter and its latest claim, and touches no turn.
        desk.raw.hdel(desk.keys().beats, "w")
        desk.raw.hdel(desk.keys().claims, "w")
    before = desk.everything()
    assert await INPUTS[input_](desk) == answer
    if after:
        assert (desk.state() or "none") == after
    else:
        assert desk.everything() == before


@pytest.mark.parametrize("events", [1, -1])
async def test_an_owner_that_expects_another_number_of_events_is_moved_and_writes_nothing(
    desk: Desk, events: int
) -> None:
    claim = await desk.running()
    before = desk.everything()
    assert await desk.commit(claim, more_events=events) == "MOVED"
    assert desk.everything() == before


@pytest.mark.parametrize("records", [1, -1])
async def test_an_owner_that_expects_another_length_of_the_log_is_moved_and_writes_nothing(
    desk: Desk, records: int
) -> None:
    claim = await desk.running()
    before = desk.everything()
    assert await desk.commit(claim, more_log=records) == "MOVED"
    assert desk.everything() == before


@pytest.mark.parametrize("partitions", [1, 3])
async def test_a_turn_of_another_tenant_is_simply_not_there(redis_url: str, partitions: int) -> None:
    async with open_desk(redis_url, partitions) as desk:
        await desk.parked()
        before = desk.everything()
        assert (await desk.settle(tenant="bolt")).answer == "GONE"
        assert await desk.force(tenant="bolt") == "GONE"
        assert await desk.store.erase("bolt", desk.session(tenant="bolt")) == "GONE"
        assert await desk.store.turn_fields("bolt", desk.ref(tenant="bolt")) == {}
        assert await desk.store.entries("bolt", desk.ref(tenant="bolt")) == []
        assert await desk.store.open_items("bolt") == []
        assert await desk.store.session_refs("bolt", 10) == []
        assert desk.everything() == before
