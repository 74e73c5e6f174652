"""Open items on the command line: listed, shown, decided."""

from __future__ import annotations

from typing import Literal

import orjson

from engine.runtime import Decision, Runtime
from engine.views import OpenItem
from loopengine.cli import asking
from loopengine.cli.conversation import PENDING, Conversation, converse, how_to_decide
from loopengine.cli.narration import arguments
from loopengine.cli.options import Where
from loopengine.cli.queries import query
from loopengine.cli.streams import Output, say
from protocol.errors import NotFound

Kind = Literal["approval", "question"]


def list_items(kind: Kind, where: Where, output: Output, as_json: bool) -> int:
    async def print_all(runtime: Runtime) -> None:
        items = await runtime.inbox(runtime.settings.tenant, kind)
        for item in items:
            if as_json:
                await output.record(item.card)
            else:
                await output.text(_in_one_line(item))
        if not items and not as_json:
            say(f"no {kind} is open for tenant {runtime.settings.tenant}")

    return query(where, output, print_all)


def _in_one_line(item: OpenItem) -> str:
    card = item.card
    what = f"{card['tool']} {arguments(card['args'])}" if item.kind == "approval" else card["question"]
    return f"{item.id}  {card['requestedAt']}  {item.agent}  {item.session_id}  {' '.join(what.split())}"


def show_item(kind: Kind, item_id: str, where: Where, output: Output, as_json: bool) -> int:
    async def print_it(runtime: Runtime) -> None:
        item = await runtime.item(runtime.settings.tenant, item_id)
        if item.kind != kind:
            raise NotFound(f"{item_id} is not of kind {kind}: see `{where.command(f'{item.kind}s', 'show', item_id)}`")
        if as_json:
            await output.record(item.card)
            return
        for line in how_to_decide(item, where)[1:]:
            await output.text(line)

    return query(where, output, print_it)


def decide(
    item_id: str,
    what: Literal["approve", "deny", "answer"],
    where: Where,
    output: Output,
    as_json: bool,
    *,
    digest: str | None = None,
    text: str | None = None,
) -> int:
    """Store the decision and follow the turn from there; repeating it shows the same again."""

    async def settle(talk: Conversation) -> int:
        decision = Decision(what, asking.user_name(), digest, text)
        decided = await talk.runtime.settle(talk.tenant, item_id, decision)
        if not decided.applied:
            say(f"{item_id} was already decided like this by {decided.decision['by']} at {decided.decision['at']}")
        return await talk.follow(decided.turn_id, await _shown_until(talk, decided.turn_id, item_id))

    return converse(where, output, as_json, settle)


async def _shown_until(talk: Conversation, turn_id: str, item_id: str) -> int:
    """Number of the event that put the item up: what is behind it came of the decision, whoever made it and when."""
    for entry in await talk.runtime.events(talk.tenant, turn_id):
        event = orjson.loads(entry.event)
        if event["type"] in PENDING and event["id"] == item_id:
            return entry.n
    return 0
