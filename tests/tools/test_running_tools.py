"""Running a tool always ends in an outcome: results, errors, time limits, cancellation."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from engine.tools import run as running
from engine.tools.context import Cancellation, ToolContext
from engine.tools.decorator import tool
from engine.tools.threads import ToolThreads
from tests.tools.contexts import a_context, run

CALLER: contextvars.ContextVar[str] = contextvars.ContextVar("CALLER", default="nobody")


async def test_sync_and_async_tools_give_their_result() -> None:
    def plain(a: int) -> dict[str, int]:
        return {"a": a}

    async def waiting(a: int) -> str:
        await asyncio.sleep(0)
        return f"a is {a}"

    assert await run(plain, {"a": 1}) == running.ToolOutcome("ok", '{"a": 1}')
    assert await run(waiting, {"a": 2}) == running.ToolOutcome("ok", "a is 2")


async def test_a_sync_tool_runs_beside_the_loop_with_the_callers_context_variables() -> None:
    CALLER.set("the turn")
    loop_thread = threading.get_ident()

    def who() -> str:
        return f"{CALLER.get()} {threading.get_ident() != loop_thread}"

    assert (await run(who)).content == "the turn True"


async def test_the_context_is_given_and_nothing_else_is() -> None:
    def seen(context: ToolContext, a: str = "default") -> str:
        return f"{context.tenant} {context.call} {context.idempotency_key} {a}"

    assert (await run(seen)).content == "acme 2.0 key-1 default"


def fails_sync() -> None:
    raise LookupError("no such order")


async def fails_async() -> None:
    raise LookupError("no such order")


def exits() -> None:
    raise SystemExit(3)


def stops() -> None:
    raise StopIteration


async def cancels_itself() -> None:
    raise asyncio.CancelledError


class Panic(BaseException):
    """As extensions in Rust raise it."""


def panics_sync() -> None:
    raise Panic("index out of bounds")


async def panics_async() -> None:
    raise Panic("index out of bounds")


async def interrupts() -> None:
    raise KeyboardInterrupt


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def fails_without_words() -> None:
    raise Mute


FAILURES = [
    (fails_sync, "LookupError: no such order"),
    (fails_async, "LookupError: no such order"),
    (exits, "SystemExit: 3"),
    (stops, "StopIteration"),
    (panics_sync, "Panic: index out of bounds"),
    (panics_async, "Panic: index out of bounds"),
    (interrupts, "KeyboardInterrupt"),
    (cancels_itself, "cancels_itself cancelled itself"),
    (fails_without_words, "Mute"),
]


@pytest.mark.parametrize(("function", "content"), FAILURES)
async def test_whatever_a_tool_raises_is_an_error_with_type_and_message_only(function: Any, content: str) -> None:
    assert await run(function) == running.ToolOutcome("error", content)


async def test_secrets_and_broken_text_do_not_leave_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "abcdef-123456")
    monkeypatch.setenv("SHORT_TOKEN", "abc")

    def leaks() -> None:
        raise ValueError(
            "abcdef-123456 abc Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.x redis://me:hunter22@host/0 \ud83d "
            + "x" * 9999
        )

    content = (await run(leaks)).content
    assert content.startswith(
        "ValueError: [redacted] abc Authorization: Bearer [redacted] redis://me:[redacted]@host/0 \ufffd"
    )
    assert len(content) <= 2_000


async def test_a_result_without_a_form_in_json_is_an_error_of_that_call() -> None:
    def odd() -> object:
        return {"a": [object()]}

    outcome = await run(odd)
    assert outcome.status == "error"
    assert outcome.content == (
        "odd ran, but its result cannot be shown: result.a[0] is of type object, which has no form in JSON"
    )


async def test_an_async_tool_that_takes_too_long_is_stopped() -> None:
    stopped = asyncio.Event()
    context = a_context()

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    outcome = await run(slow, timeout_s=0.05, context=context)
    assert outcome == running.ToolOutcome("error", "slow timed out after 0.05s")
    assert stopped.is_set()
    assert context.cancelled.is_set()


async def test_a_time_limit_cannot_be_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "GRACE_S", 0.05)
    may_end = asyncio.Event()

    async def stubborn() -> None:
        while not may_end.is_set():
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                continue

    outcome = await run(stubborn, timeout_s=0.05)
    assert outcome.content == "stubborn timed out after 0.05s; it did not stop and may still be running"
    may_end.set()
    await asyncio.gather(*running._left_behind)


async def test_a_sync_tool_that_takes_too_long_is_left_behind_and_told() -> None:
    told = threading.Event()

    def slow(context: ToolContext) -> None:
        if context.cancelled.wait_in_thread(30):
            told.set()

    outcome = await run(slow, timeout_s=0.05)
    assert outcome == running.ToolOutcome("error", "slow timed out after 0.05s; it may still be running")
    assert await asyncio.to_thread(told.wait, 30)


async def test_the_tools_own_time_limit_goes_before_the_default() -> None:
    @tool(timeout=0.05)
    async def slow() -> None:
        await asyncio.Event().wait()

    assert "timed out after 0.05s" in (await run(slow, timeout_s=60)).content


async def test_a_tool_that_found_no_thread_in_time_did_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_threads", ToolThreads(1))
    holding, free, ran = threading.Event(), threading.Event(), threading.Event()

    def holds() -> None:
        holding.set()
        free.wait(30)

    def waits() -> None:
        ran.set()

    first = asyncio.create_task(run(holds))
    assert await asyncio.to_thread(holding.wait, 30)
    outcome = await run(waits, timeout_s=0.05)
    assert outcome == running.ToolOutcome("error", "waits waited 0.05s for a free thread; it did not run")
    free.set()
    assert (await first).status == "ok"
    assert (await run(holds)).status == "ok"
    assert not ran.is_set()


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_cancelling_the_caller_reaches_the_tool_and_goes_on(kind: str) -> None:
    started, told = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def in_thread(context: ToolContext) -> None:
        loop.call_soon_threadsafe(started.set)
        if context.cancelled.wait_in_thread(30):
            told.set()

    async def on_loop(context: ToolContext) -> None:
        started.set()
        try:
            await context.cancelled.wait()
        finally:
            told.set()

    task = asyncio.create_task(run(in_thread if kind == "sync" else on_loop))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(told.wait, 30)


async def test_cancellation_wakes_waiters_from_any_thread() -> None:
    flag = Cancellation()
    waiting = [asyncio.create_task(flag.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    with ThreadPoolExecutor(1) as other:
        other.submit(flag.set).result()
    await asyncio.gather(*waiting)
    await flag.wait()
    assert flag.is_set()


def test_threads_are_reused_and_bounded() -> None:
    threads = ToolThreads(3)
    names: set[int] = set()
    at_once: list[int] = []
    lock = threading.Lock()

    def work() -> None:
        with lock:
            names.add(threading.get_ident())
            at_once.append(1)
        time.sleep(0.001)
        with lock:
            at_once.pop()

    futures = [threads.submit(work) for _ in range(50)]
    for future in futures:
        future.result(30)
    assert 1 <= len(names) <= 3


NEVER_RETURNS = """
def forever() -> None:
    threading.Event().wait()
"""
NEVER_STOPS = """
async def forever() -> None:
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
"""


@pytest.mark.parametrize("forever", [NEVER_RETURNS, NEVER_STOPS])
def test_a_process_can_end_although_a_tool_never_does(forever: str) -> None:
    code = (
        "import asyncio, contextlib, threading\n"
        "from tests.tools.contexts import run\n"
        f"{forever}\n"
        "print(asyncio.run(run(forever, timeout_s=0.05)).status)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == b"error"
