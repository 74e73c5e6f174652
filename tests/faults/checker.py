"""The promises of the product, held against what was seen: each one that is broken, by its number and in words.

Pure: it looks at evidence and at nothing else. The numbers are those of docs/durability.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from engine.fold import fold
from engine.plan import RUN_AGAIN, next_steps
from engine.projection import messages_of, states_of
from protocol.events import validate_event
from protocol.json_text import digest_of
from tests.faults.agent import EFFECTS, GATED, pairing_problem
from tests.faults.evidence import Evidence, TurnSeen

Broken = tuple[int, str]
Found = Iterator[Broken]


def broken_promises(seen: Evidence) -> list[Broken]:
    """Empty if nothing is wrong. The run must have come to rest: nobody works on anything any more.

    Messages of one run differ from each other, and each is sent under a key of its own."""
    checks = (_ends, _places, _events, _sessions, _effects, _gates, _decisions, _requests, _repeats, _zombies)
    return [broken for check in (*checks, _acknowledged, _tenants) for broken in check(seen)]


def _ends(seen: Evidence) -> Found:
    """1: done once, parked with one item, or waiting behind such a turn; nobody lost that lived."""
    unfinished = {turn.turn_id for turn in seen.turns.values() if turn.state not in ("done", None)}
    for turn in seen.turns.values():
        dones = [event for event in turn.events if event["type"] == "done"]
        resumed = [event for event in turn.events if event["type"] == "turn:resumed"]
        if turn.state == "done" and len(dones) != 1:
            yield 1, f"{turn.turn_id} ended with {len(dones)} `done`"
        if turn.state == "parked" and (turn.item is None or dones):
            yield 1, f"{turn.turn_id} is parked without an open item"
        if turn.state == "waiting" and len(unfinished) < 2:
            yield 1, f"{turn.turn_id} waits behind no turn"
        if turn.state in ("queued", "running"):
            yield 1, f"{turn.turn_id} is {turn.state} at rest: nobody goes on with it"
        if len(resumed) > seen.deaths:
            yield 1, f"{turn.turn_id} was taken from a living owner ({len(resumed)} resumed, {seen.deaths} deaths)"


def _places(seen: Evidence) -> Found:
    """1 and 12: no list names a turn that is not in that state; what is parked holds nothing."""
    state_of = {turn.turn_id: turn.state for turn in seen.turns.values()}
    for turn_id in seen.running:
        yield 12 if state_of.get(turn_id) == "parked" else 1, f"{turn_id} is registered as running at rest"
    for turn_id in seen.busy:
        yield 12, f"{turn_id} counts against its tenant's limit at rest"
    for turn_id in seen.ready:
        if state_of.get(turn_id) != "parked":
            yield 1, f"{turn_id} stands in the line at rest"
    open_items = {turn.item for turn in seen.turns.values() if turn.item}
    if set(seen.inbox) != open_items:
        yield 1, f"the inbox shows {sorted(seen.inbox)}, turns are parked on {sorted(open_items)}"


def _events(seen: Evidence) -> Found:
    """2: numbers 1..n, valid, `session` first, nothing behind `done`, readers saw prefixes."""
    for turn in seen.turns.values():
        yield from _numbers(turn)
        types = [event["type"] for event in turn.events]
        if turn.state is not None and types[:1] != ["session"]:
            yield 2, f"{turn.turn_id} begins with {types[:1]}"
        if "done" in types[:-1]:
            yield 2, f"{turn.turn_id}: {types[types.index('done') + 1 :]} follow `done`"
        started = Counter(event["id"] for event in turn.events if event["type"] == "tool:started")
        results = Counter(event["id"] for event in turn.events if event["type"] == "tool:result")
        for call in started | results:
            if started[call] > 1 or results[call] > 1:
                yield 2, f"{turn.turn_id}: call {call} has {started[call]} starts and {results[call]} results"
            if turn.state == "done" and not results[call]:
                yield 2, f"{turn.turn_id}: call {call} was started and has no result"
        for earlier in turn.read_before:
            if turn.state is not None and turn.entries[: len(earlier)] != earlier:
                yield 2, f"{turn.turn_id}: a reader saw events that are not there any more"


def _numbers(turn: TurnSeen) -> Found:
    numbers = [entry.n for entry in turn.entries]
    if numbers != list(range(1, len(numbers) + 1)):
        yield 2, f"{turn.turn_id} has event numbers {numbers}"
    for event in turn.events:
        try:
            validate_event(event)
        except ValueError as error:
            yield 2, f"{turn.turn_id} has an event that is none: {error}"


def _sessions(seen: Evidence) -> Found:
    """3: turns of a session lie one behind the other."""
    for session, records in seen.logs.items():
        blocks = [turn for turn, _ in groupby(record["turn"] for record in records)]
        if len(blocks) != len(set(blocks)):
            yield 3, f"turns of session {session} interleave: {blocks}"


def _runs(seen: Evidence) -> Counter[tuple[str, str, str]]:
    return Counter((line["turn"], line["call"], line["tool"]) for line in seen.ledger if line["what"] == "tool")


def _call_of(item: str) -> tuple[str, str]:
    turn, _, rest = item.partition(".")
    return turn, rest.rpartition(".")[0]


def _records(seen: Evidence, kind: str) -> list[dict[str, Any]]:
    return [record for records in seen.logs.values() for record in records if record["t"] == kind]


def _effects(seen: Evidence) -> Found:
    """4: an effect at most once, and once more for each "run again" of a person."""
    again = Counter(_call_of(r["item"]) for r in _records(seen, "decided") if r.get("text") == RUN_AGAIN)
    for (turn, call, tool), times in _runs(seen).items():
        if tool in EFFECTS and times > 1 + again[turn, call]:
            yield 4, f"{tool} of {turn}.{call} had its effect {times} times, {again[turn, call]} of them asked for"


def _gates(seen: Evidence) -> Found:
    """5: what a person must allow runs only after a yes to these arguments."""
    asked = {record["item"]: record for record in _records(seen, "asked")}
    approved = {_call_of(r["item"]): r for r in _records(seen, "decided") if r["what"] == "approve"}
    for line in seen.ledger:
        if line["what"] != "tool" or line["tool"] not in GATED | {"forbidden"}:
            continue
        yes = approved.get((line["turn"], line["call"]))
        if yes is None:
            yield 5, f"{line['tool']} of {line['turn']}.{line['call']} ran although nobody allowed it"
        elif digest_of(line["tool"], line["args"]) != asked[yes["item"]]["digest"]:
            yield 5, f"{line['tool']} of {line['turn']}.{line['call']} ran with other arguments than were shown"
    for answer in seen.answers:
        if answer["did"] == "decide" and answer["digest"]:
            shown = asked.get(answer["item"], {}).get("digest")
            if not seen.erased and shown != answer["digest"]:
                yield 5, f"{answer['item']} was decided on digest {answer['digest']}, shown was {shown}"


def _decisions(seen: Evidence) -> Found:
    """6: applied once, on an item that was open; everybody is told the same."""
    asked = {record["item"] for record in _records(seen, "asked")}
    decided = Counter(record["item"] for record in _records(seen, "decided"))
    for item, times in decided.items():
        if times > 1:
            yield 6, f"{item} was decided {times} times"
        if item not in asked:
            yield 6, f"{item} was decided and was never open"
    told: dict[str, Any] = {}
    for answer in seen.answers:
        if answer["did"] == "decide":
            first = told.setdefault(answer["item"], answer["decision"])
            if first != answer["decision"]:
                yield 6, f"{answer['item']}: one was told {first}, another {answer['decision']}"
            if not seen.erased and not decided[answer["item"]]:
                yield 6, f"{answer['item']}: a decision was answered and is not on record"
        if answer["did"] == "refused" and answer["repeat"]:
            yield 6, f"{answer['item']}: a repeated decision was refused"


def _requests(seen: Evidence) -> Found:
    """7: each call has one result, in every request that was made and in the one that would be next."""
    for line in seen.ledger:
        if line["what"] == "model" and line["problem"]:
            yield 7, f"a provider was asked {line['message']!r} with a bad request: {line['problem']}"
    for session, records in seen.logs.items():
        for turn in {record["turn"] for record in records}:
            next_steps(fold(records, turn), "somebody", 6)
        messages = messages_of(states_of(records).values())
        if messages and messages[-1]["role"] == "assistant":
            messages.pop()  # its calls are being decided, and nothing is sent before they are
        if problem := pairing_problem(messages):
            yield 7, f"session {session} cannot go on: {problem}"
    for (turn, at), times in Counter((r["turn"], r["at"]) for r in _records(seen, "result")).items():
        if times > 1:
            yield 7, f"{turn}.{at} has {times} results"


def _repeats(seen: Evidence) -> Found:
    """8: once the next step was asked of the model, nothing before it is done again."""
    latest: dict[str, int] = {}
    for line in seen.ledger:
        if line["what"] == "model":
            if line["step"] < latest.get(line["message"], 0):
                yield 8, f"answer {line['step'] + 1} to {line['message']!r} was paid for again"
            latest[line["message"]] = max(latest.get(line["message"], 0), line["step"])
    finished: set[tuple[str, str]] = set()
    message_of = {answer["turn"]: answer["message"] for answer in seen.answers if answer["did"] == "say"}
    for line in seen.ledger:
        if line["what"] == "tool" and (message_of.get(line["turn"], ""), line["call"].split(".")[0]) in finished:
            yield 8, f"{line['tool']} of {line['turn']}.{line['call']} ran again although it was finished"
        if line["what"] == "model" and line["step"]:
            finished.add((line["message"], str(line["step"])))


def _zombies(seen: Evidence) -> Found:
    """9: a claim that was replaced or taken away writes nothing more."""
    for turn in seen.turns.values():
        writers = [writer for writer, _ in groupby(entry.writer for entry in turn.entries)]
        if len(writers) != len(set(writers)):
            yield 9, f"{turn.turn_id} was written by {writers} in turns"
        for turn_id, writer, length in seen.lost:
            if turn_id == turn.turn_id and any(entry.writer == writer for entry in turn.entries[length:]):
                yield 9, f"{turn_id}: claim {writer} wrote behind event {length}, where it was taken away"


def _acknowledged(seen: Evidence) -> Found:
    """10: what was answered is there; what was erased is not."""
    turns = [answer["turn"] for answer in seen.answers if answer["did"] == "say"]
    messages = Counter(
        answer["message"] for answer in {a["turn"]: a for a in seen.answers if a["did"] == "say"}.values()
    )
    for message, times in messages.items():
        if times > 1:
            yield 10, f"{message!r} was accepted as {times} turns under one key"
    for turn_id in turns:
        if seen.turns[turn_id].state is None and not seen.erased:
            yield 10, f"{turn_id} was accepted and is not there"
    if not seen.erased and seen.answers and (more := seen.turns.keys() - set(turns)):
        yield 10, f"{sorted(more)} are there and were accepted for nobody"
    if seen.erased and seen.leftovers:
        yield 10, f"an erased session left {seen.leftovers}"
    cancelled = {answer["turn"] for answer in seen.answers if answer["did"] == "cancel"} - {None}
    for turn_id in cancelled & seen.turns.keys():
        if seen.turns[turn_id].state not in ("done", None):
            yield 10, f"{turn_id} was cancelled and is {seen.turns[turn_id].state}"


def _tenants(seen: Evidence) -> Found:
    """11: nothing of one tenant is shown to another."""
    for shown in seen.foreign:
        yield 11, f"{shown} was shown to another tenant"
