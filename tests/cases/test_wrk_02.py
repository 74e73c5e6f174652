"""WRK-02: a time limit the tool swallows.

The limits are documented in docs/operations.md: one per tool call, one per turn (running time only), and one for a
process that stands still. Minutes of the case are seconds here: the limits are settings.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cases.client import types_of
from tests.cases.ledger import AGENT, asks, says, use
from tests.cases.product import Product, case
from tests.processes import eventually, eventually_async

LIMIT_S = 3.0
BLOCKED_S = 5.0
GRACE_S = 4.0
"""Documented: 2 s for cleaning up; the rest is for a busy machine."""

TOOLS = '''
import asyncio
import ctypes
import os
import threading
import time

from loopengine import tool


def note(line):
    with open(os.environ["LEDGER"], "a") as file:
        file.write(line + "\\n")


@tool
def swallows() -> str:
    """Loops and swallows every exception."""
    note("begin swallows")
    while True:
        try:
            time.sleep(0.05)
        except Exception:
            pass


@tool
async def swallows_cancellation() -> str:
    """Awaits and swallows even its cancellation."""
    note("begin swallows_cancellation")
    while True:
        try:
            await asyncio.sleep(3600)
        except BaseException:
            pass


@tool
async def awaits() -> str:
    """Awaits for ever."""
    note("begin awaits")
    await asyncio.Event().wait()


@tool(on_interrupt="fail")
async def blocks_in_c() -> str:
    """Blocks in C code, without ever giving back the interpreter's lock."""
    note("begin blocks_in_c")
    ctypes.PyDLL(None).sleep(3600)


@tool(on_interrupt="ask")
async def blocks_and_asks() -> str:
    """Blocks the event loop alone."""
    note("begin blocks_and_asks")
    time.sleep(3600)


@tool
def starts_a_thread() -> str:
    """Starts a thread that stays, and returns."""
    threading.Thread(target=time.sleep, args=(3600,)).start()
    return "started"


@tool(timeout=0.5)
async def has_its_own() -> str:
    """Awaits for ever, with a limit of its own."""
    await asyncio.Event().wait()
'''
STUCK = ("swallows", "swallows_cancellation", "awaits", "blocks_in_c", "blocks_and_asks")
ONE_BYTE_A_MINUTE = {"raw_sse": ['data: {"id": "x"'], "then": "hang"}
SCRIPTS: dict[str, Any] = {f"^{name}$": [asks(use(f"toolu_{name}", name)), says("After all.")] for name in STUCK}
SCRIPTS |= {
    "^thread$": [asks(use("toolu_thread", "starts_a_thread")), says("Started.")],
    "^own$": [asks(use("toolu_own", "has_its_own")), says("It took too long.")],
    "^slow model$": [ONE_BYTE_A_MINUTE],
    "^gate$": [asks(use("toolu_gate", "ledger_add", key="gate")), says("Opened.")],
}
RULES = ["{tool: ledger_add, decision: ask}", '{tool: "*", decision: allow}']


def given_the_agent(folder: Path, **limits: Any) -> None:
    """More tools, and limits in agent.yml."""
    agent = folder / "agents" / AGENT
    (agent / "tools" / "stuck.py").write_text(TOOLS)
    settings = json.loads((agent / "agent.yml").read_text())
    (agent / "agent.yml").write_text(json.dumps({**settings, **limits}))


async def timed_out(product: Product, session: str, within_s: float) -> dict[str, Any]:
    """Say the session's name and see the turn end by its limit."""
    accepted = (await product.client.say(session, session, wait_s=0)).json()
    turn = await product.client.settled(accepted["turnId"], "done", "parked", within_s=within_s)
    # "The turn ends as timed out within limit + documented grace (not finished, not running)."
    assert (turn["state"], turn["stopReason"]) == ("done", "error"), turn
    [error] = [event["error"] for event in turn["events"] if event["type"] == "error"]
    assert f"time limit of {LIMIT_S:g} s" in error
    # "The next turn works."
    said = await product.client.say(session, "hello")
    assert (said.status_code, said.json()["text"]) == (200, "Hello to you.")
    return turn


def has_an_error_result(turn: dict[str, Any]) -> bool:
    """ "The call has an error result." """
    return [e["statusText"] for e in turn["events"] if e["type"] == "tool:result"] in (["Error."], ["Unknown."])


async def test_a_turn_ends_at_its_limit_whatever_its_tool_swallows(redis_url: str, tmp_path: Path) -> None:
    async with case(redis_url, tmp_path, SCRIPTS, workers=0, rules=RULES) as product:
        # "With a turn limit of 5 s": in agent.yml; 3 s here.
        given_the_agent(tmp_path, turnTimeoutSeconds=LIMIT_S)
        product.start(apis=0, workers=1)
        # (a) "loops with `except Exception: pass`" in a thread, and its async sister that swallows its cancellation
        # (b) "is async and awaits for ever"
        for name in ("swallows", "swallows_cancellation", "awaits"):
            assert has_an_error_result(await timed_out(product, name, LIMIT_S + GRACE_S + 5))
        # (e) "waits for a model that sends one byte per minute."
        slow = await timed_out(product, "slow model", LIMIT_S + GRACE_S + 5)
        assert "tool:result" not in types_of(slow["events"])

        # "A limit per tool and a limit per turn both exist": a tool's own ends the call, and the turn goes on.
        own = (await product.client.say("own", "own")).json()
        assert (own["text"], own.get("stopReason")) == ("It took too long.", None)
        assert has_an_error_result(await product.client.turn(own["turnId"]))

        # (d) "starts a thread and returns": the call is over, the turn ends by itself,
        assert (await product.client.say("thread", "thread")).json()["text"] == "Started."
        # and the thread does not keep the worker's process from ending.
        product.stop(*product.workers)


async def test_time_spent_parked_or_without_any_worker_does_not_count(redis_url: str, tmp_path: Path) -> None:
    async with case(redis_url, tmp_path, SCRIPTS, workers=0, rules=RULES) as product:
        given_the_agent(tmp_path, turnTimeoutSeconds=4)
        # Queued for longer than the limit,
        accepted = (await product.client.say("gate", "gate", wait_s=0)).json()
        eventually(passed(4.1), 10)
        product.start(apis=0, workers=1)
        # then parked for longer than the limit: "time spent parked does not count."
        item = await product.client.opened("gate")
        eventually(passed(4.1), 10)
        assert (await product.client.decide(item["id"], "allow", by="kim")).status_code in (200, 202)
        done = await product.client.settled(accepted["turnId"], "done")
        assert (done["text"], done.get("stopReason")) == ("Opened.", None)


def passed(seconds: float) -> Callable[[], bool]:
    """True that much later: here the passing of time is what the case is about."""
    until = time.monotonic() + seconds
    return lambda: time.monotonic() >= until


@pytest.mark.parametrize("name", ["blocks_in_c", "blocks_and_asks"])
async def test_a_process_that_is_blocked_is_killed_from_outside(redis_url: str, tmp_path: Path, name: str) -> None:
    env = {"LOOPENGINE_BLOCKED_SECONDS": f"{BLOCKED_S:g}", "LOOPENGINE_PROCESSES": "2"}
    async with case(redis_url, tmp_path, SCRIPTS, workers=0, rules=RULES, env=env) as product:
        given_the_agent(tmp_path, turnTimeoutSeconds=LIMIT_S)
        supervisor = product.start_worker()
        # (c) "blocks in C code without releasing control"
        turn = await timed_out(product, name, BLOCKED_S + LIMIT_S + 30)
        assert has_an_error_result(turn)
        assert product.ledger.count(f"begin {name}") == 1
        # "For (c) the process is killed from outside." and another one takes its place.
        await eventually_async(lambda: _says(supervisor, "worker process ended, another is started"))
        assert "(most recent call first)" in supervisor.output  # where it stood
        supervisor.signal(signal.SIGTERM)
        assert supervisor.wait(40) == 0, supervisor.output
        product.workers.clear()


async def _says(process: Any, words: str) -> bool:
    return words in process.output


async def test_tokens_and_tool_calls_of_a_turn_have_limits_too(redis_url: str, tmp_path: Path) -> None:
    calls = [use(f"toolu_{n}", "read_note") for n in range(3)]
    scripts = {"^calls$": [asks(*calls), says("Never said.")], "^tokens$": [asks(use("toolu_t", "read_note"))]}
    async with case(redis_url, tmp_path, scripts, workers=0, rules=RULES) as product:
        given_the_agent(tmp_path, maxToolCalls=2, maxTokensPerTurn=1)
        product.start(apis=0, workers=1)
        many = (await product.client.say("calls", "calls")).json()
        assert many["stopReason"] == "error"
        assert "maxToolCalls" in _error(await product.client.turn(many["turnId"]))
        assert product.ledger.count("read") == 0  # none of the batch, rather than some of it
        costly = (await product.client.say("tokens", "tokens")).json()
        assert costly["stopReason"] == "error"
        assert "maxTokensPerTurn" in _error(await product.client.turn(costly["turnId"]))
        assert product.ledger.count("read") == 1


def _error(turn: dict[str, Any]) -> str:
    [error] = [event["error"] for event in turn["events"] if event["type"] == "error"]
    return str(error)
