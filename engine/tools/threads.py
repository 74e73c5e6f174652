"""Threads for sync tools: bounded, reused, and never a reason for a process not to end.

concurrent.futures joins its threads when the interpreter exits, so one tool that never returns would hold a worker
for ever after SIGTERM. These threads are daemons: the process ends, the intent of the call is on record.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

_Work = tuple[Future[Any], Callable[[], Any]]


class ToolThreads:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._work: SimpleQueue[_Work] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._unclaimed = 0  # idle threads minus queued work: below zero, one more thread is needed

    def submit(self, work: Callable[[], Any]) -> Future[Any]:
        """Run it in a thread. The future can be cancelled as long as no thread has taken the work."""
        future: Future[Any] = Future()
        with self._lock:
            self._unclaimed -= 1
            needs_thread = self._unclaimed < 0 and self._threads < self._limit
            if needs_thread:
                self._threads += 1
                self._unclaimed += 1
        self._work.put((future, work))
        if needs_thread:
            threading.Thread(target=self._serve, name="loopengine-tool", daemon=True).start()
        return future

    def _serve(self) -> None:
        while True:
            future, work = self._work.get()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:  # noqa: BLE001 - SystemExit too belongs to the caller, not to the thread
                    future.set_exception(error)
            del future, work  # an idle thread must not keep the last result alive
            with self._lock:
                self._unclaimed += 1
