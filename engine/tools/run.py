"""Runs one tool call and always comes back with an outcome; only the cancellation of the caller is raised.

It owns time limits, threads for sync tools and what the model gets to read. It neither validates for the gate nor
records anything.

A time limit cannot be swallowed: the call is waited for from outside, and a tool that does not stop when it is
cancelled is left behind, counted as timed out. A thread cannot be stopped at all; its tool sees
``context.cancelled``.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import traceback
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Literal

import structlog
from pydantic import ValidationError

from engine.tools.context import ToolContext
from engine.tools.redaction import redact
from engine.tools.rendering import Unrenderable, clean_text, cut, render
from engine.tools.threads import ToolThreads
from engine.tools.tool import Tool

MAX_THREADS = 64
"""Sync tools of one process that run at once; further ones wait, and their time limit runs meanwhile."""

GRACE_S = 1.0
"""How long an async tool may take to clean up after it was cancelled."""

_MAX_ERROR_CHARS = 2_000

_log = structlog.get_logger("engine.tools")
_threads = ToolThreads(MAX_THREADS)
_left_behind: set[asyncio.Task[Any]] = set()  # the loop keeps only weak references to tasks


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """``content`` is never empty, valid Unicode, and at most rendering.MAX_CHARS long."""

    status: Literal["ok", "error"]
    content: str


async def run_tool(tool: Tool, args: dict[str, Any], context: ToolContext, default_timeout_s: float) -> ToolOutcome:
    """Run ``tool`` once. ``args`` have passed ``tool.problem_with``. The time limit is the tool's own or the default.

    An error outcome says whether the tool may still be running. ``context.cancelled`` belongs to this call alone: it
    is set when the time is over or the caller is cancelled; an async tool is then cancelled and given GRACE_S.
    """
    try:
        arguments = args if tool.signature is None else tool.signature.bind(args, context)
    except ValidationError as error:
        return _failure(tool, error)
    timeout_s = tool.timeout_s if tool.timeout_s is not None else default_timeout_s
    run = _run_async if _is_async(tool.function) else _run_in_thread
    return await run(tool, arguments, context, timeout_s)


async def _run_async(tool: Tool, arguments: dict[str, Any], context: ToolContext, timeout_s: float) -> ToolOutcome:
    task = asyncio.ensure_future(_outcome_of(tool, tool.function(**arguments)))
    try:
        await asyncio.wait({task}, timeout=timeout_s)
        if task.done():
            return _finished(tool, task)
        context.cancelled.set()
        has_stopped = await _stop(task)
        return _timed_out(tool, timeout_s, "" if has_stopped else "; it did not stop and may still be running")
    except asyncio.CancelledError:
        context.cancelled.set()
        await _stop(task)
        raise


async def _stop(task: asyncio.Task[ToolOutcome]) -> bool:
    task.cancel()
    _left_behind.add(task)
    task.add_done_callback(_forget)
    await asyncio.wait({task}, timeout=GRACE_S)
    if not task.done():
        # asyncio.run waits at its end for every task that it knows, without a limit: this one would keep the process.
        asyncio._unregister_task(task)
    return task.done()


def _forget(task: asyncio.Task[ToolOutcome]) -> None:
    _left_behind.discard(task)
    if not task.cancelled():
        task.exception()  # looked at, so that asyncio does not report it as never retrieved


async def _outcome_of(tool: Tool, running: Coroutine[Any, Any, Any]) -> ToolOutcome:
    try:
        return _success(tool, await running)
    except (asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its result, a panic of a Rust extension too
        return _failure(tool, error)


def _finished(tool: Tool, task: asyncio.Task[ToolOutcome]) -> ToolOutcome:
    if task.cancelled():  # by the tool itself: nobody else has the task
        return ToolOutcome("error", f"{tool.name} cancelled itself")
    return task.result()


async def _run_in_thread(tool: Tool, arguments: dict[str, Any], context: ToolContext, timeout_s: float) -> ToolOutcome:
    values = contextvars.copy_context()
    running = _threads.submit(lambda: values.run(_outcome_in_thread, tool, arguments))
    waiting: asyncio.Future[ToolOutcome] = asyncio.wrap_future(running)
    try:
        await asyncio.wait({waiting}, timeout=timeout_s)
    finally:
        if not waiting.done():
            context.cancelled.set()
            has_started = not running.cancel()
            waiting.cancel()
    if not waiting.cancelled():
        return waiting.result()
    if not has_started:
        return ToolOutcome("error", f"{tool.name} waited {timeout_s:g}s for a free thread; it did not run")
    return _timed_out(tool, timeout_s, "; it may still be running")


def _outcome_in_thread(tool: Tool, arguments: dict[str, Any]) -> ToolOutcome:
    try:
        return _success(tool, tool.function(**arguments))
    except BaseException as error:  # noqa: BLE001 - as above
        return _failure(tool, error)


def _success(tool: Tool, value: Any) -> ToolOutcome:
    if inspect.iscoroutine(value):
        value.close()
        return ToolOutcome("error", f"{tool.name} returned a coroutine; declare the tool with async def")
    try:
        return ToolOutcome("ok", cut(render(value)))
    except Unrenderable as error:
        return ToolOutcome("error", clean_text(f"{tool.name} ran, but its result cannot be shown: {error}"))


def _failure(tool: Tool, error: BaseException) -> ToolOutcome:
    stack = "".join(traceback.format_exception(error))
    _log.warning("a tool failed", tool=tool.name, stack=redact(clean_text(stack)))
    return ToolOutcome("error", error_text(error))


def error_text(error: BaseException) -> str:
    """Type and message of an exception for the model: no stack, no secrets, valid Unicode, bounded."""
    try:
        message = str(error).strip()
    except Exception:  # noqa: BLE001 - an exception whose __str__ raises still has a type
        message = ""
    name = type(error).__name__
    return cut(redact(clean_text(f"{name}: {message}" if message else name)), _MAX_ERROR_CHARS)


def _timed_out(tool: Tool, timeout_s: float, more: str) -> ToolOutcome:
    _log.warning("a tool timed out", tool=tool.name, timeout_s=timeout_s)
    return ToolOutcome("error", f"{tool.name} timed out after {timeout_s:g}s{more}")


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
