"""Sessions and turns on the command line: printed, cancelled, deleted."""

from __future__ import annotations

from typing import Any

import orjson

from engine.runtime import Runtime
from engine.tools.system import ASK_USER
from engine.views import SessionView, TurnView
from loopengine.cli.conversation import how_to_decide
from loopengine.cli.narration import Narrator, arguments
from loopengine.cli.options import Where
from loopengine.cli.queries import query
from loopengine.cli.streams import Output, say

UNDER_WAY = ("waiting", "queued", "running")


def list_sessions(agent: str | None, limit: int, where: Where, output: Output, as_json: bool) -> int:
    async def print_all(runtime: Runtime) -> None:
        lines = await runtime.sessions(runtime.settings.tenant, agent, limit)
        for line in lines:
            if as_json:
                await output.record({"type": "session:status", **line})
            else:
                await output.text(f"{line['sessionId']}  {line['agent']}  {line['state']}  {line['turnId'] or '-'}")
        if not lines and not as_json:
            say(f"tenant {runtime.settings.tenant} has no sessions")

    return query(where, output, print_all)


def show_session(agent: str, session_id: str, where: Where, output: Output, as_json: bool) -> int:
    async def print_it(runtime: Runtime) -> None:
        view = await runtime.session(runtime.settings.tenant, agent, session_id)
        if as_json:
            await output.record(_session_record(view))
            return
        await output.text(f"session {view.session_id} with {view.agent}: {view.state}")
        for message in view.messages:
            for line in _spoken(message):
                await output.text(line)
        for line in how_to_decide(view.item, where) if view.item else ():
            await output.text(line)
        if view.turn_id is not None and view.state in UNDER_WAY:
            note = (await runtime.turn(runtime.settings.tenant, view.turn_id)).note
            await output.text(f"turn {view.turn_id} is {view.state}{f' ({note})' if note else ''}")
            await output.text(_how_to_follow(view.turn_id, where))

    return query(where, output, print_it)


def _how_to_follow(turn_id: str, where: Where) -> str:
    """Following also runs the turn if no worker does."""
    return f"follow: {where.command('turns', 'follow', turn_id)}"


def _session_record(view: SessionView) -> dict[str, Any]:
    return {
        "type": "session:status",
        "sessionId": view.session_id,
        "agent": view.agent,
        "state": view.state,
        "turnId": view.turn_id,
        "item": view.item.card if view.item else None,
        "turns": view.turns,
        "messages": view.messages,
        "usage": view.usage,
    }


def _spoken(message: dict[str, Any]) -> list[str]:
    lines = [f"{message['role']}: {message['text']}"] if message["text"] else []
    return lines + [_used(call) for call in message.get("calls", ())]


def _used(call: dict[str, Any]) -> str:
    """With what an error was and what a person answered: nothing else of the session says it."""
    line = f"  {call['tool']} {arguments(call['args'])}: {call['status']}"
    says = call.get("result") if call["status"] == "error" or call["tool"] == ASK_USER.name else None
    return f"{line}, {' '.join(str(says).split())}" if says else line


def cancel_session(agent: str, session_id: str, where: Where, output: Output, as_json: bool) -> int:
    async def cancel(runtime: Runtime) -> None:
        turn_id = await runtime.cancel(runtime.settings.tenant, agent, session_id)
        if as_json:
            await output.record({"type": "session:cancelled", "sessionId": session_id, "turnId": turn_id})
        else:
            await output.text(f"cancelled turn {turn_id}" if turn_id else "nothing was running")

    return query(where, output, cancel)


def delete_session(agent: str, session_id: str, where: Where, output: Output, as_json: bool) -> int:
    async def delete(runtime: Runtime) -> None:
        await runtime.erase(runtime.settings.tenant, agent, session_id)
        if as_json:
            await output.record({"type": "session:deleted", "sessionId": session_id})
        else:
            await output.text(f"deleted session {session_id}")

    return query(where, output, delete)


def show_turn(turn_id: str, where: Where, output: Output, as_json: bool) -> int:
    async def print_it(runtime: Runtime) -> None:
        tenant = runtime.settings.tenant
        view = await runtime.turn(tenant, turn_id)
        events = [orjson.loads(entry.event) for entry in await runtime.events(tenant, turn_id)]
        if as_json:
            await output.record(_turn_record(view, events))
            return
        note = f" ({view.note})" if view.note else ""
        await output.text(f"turn {view.turn_id} of session {view.session_id} with {view.agent}: {view.state}{note}")
        for line in filter(None, map(Narrator().tell, events)):
            await output.text(line)
        if view.text:
            await output.text(view.text)
        for line in how_to_decide(view.item, where) if view.item else ():
            await output.text(line)
        if view.state in UNDER_WAY:
            await output.text(_how_to_follow(turn_id, where))

    return query(where, output, print_it)


def _turn_record(view: TurnView, events: list[dict[str, Any]]) -> dict[str, Any]:
    record = {
        "type": "turn:status",
        "turnId": view.turn_id,
        "sessionId": view.session_id,
        "agent": view.agent,
        "environment": view.environment,
        "state": view.state,
        "note": view.note,
        "item": view.item.card if view.item else None,
        "text": view.text,
        "stopReason": view.stop_reason,
        "error": view.error,
        "usage": view.usage,
        "acceptedAt": view.accepted_at,
        "events": events,
    }
    return {name: value for name, value in record.items() if value is not None}
