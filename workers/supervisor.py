"""Several worker processes under one parent: a child that dies is known at once, its turns are released, and another
takes its place. The parent runs no turns and reads no jobs.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

import structlog

from engine.settings import Settings
from engine.tethered import TETHER_SIGNAL, start_tethered
from protocol.errors import OperatorError
from workers.naming import new_worker_name

log = structlog.get_logger("workers")

_SHORT_LIFE_S = 5.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
_STOPS = (signal.SIGTERM, signal.SIGINT, TETHER_SIGNAL)
_AFTER_DRAIN_S = 10.0
"""A child that is still there this long after its time to drain hangs."""


def run_supervisor(settings: Settings, processes: int, command: Sequence[str], release: Callable[[str], None]) -> int:
    """Keep ``processes`` children of ``command --name <new name>`` running until SIGTERM or SIGINT; exit code.

    ``release(name)`` gives back the turns of a child that died; it may raise OperatorError, then the sweep does it
    after the lease. The first signal is passed on and the children's ends are awaited (0), a second kills them (1).
    If this process is killed, its children stop as after SIGTERM. Must be called from the main thread.
    """
    assert threading.current_thread() is threading.main_thread(), "children end with the thread that started them"
    return _Supervisor(processes, list(command), release, settings.drain_s + _AFTER_DRAIN_S).run()


@dataclass
class _Place:
    """One of the processes to keep: its child, or the time when it gets the next one."""

    child: subprocess.Popen[bytes] | None = None
    name: str = ""
    started_at: float = 0.0
    start_at: float = 0.0
    short_lives: int = 0


@dataclass
class _Supervisor:
    processes: int
    command: list[str]
    release: Callable[[str], None]
    patience_s: float
    signals: list[int] = field(default_factory=list)
    killed: bool = False

    def run(self) -> int:
        places = [_Place() for _ in range(self.processes)]
        passed_on = 0
        kill_at = float("inf")
        with _woken_by_signals(self.signals) as wait:
            while True:
                for place in places:
                    self._reap(place)
                    if place.child is None and not self.signals and time.monotonic() >= place.start_at:
                        self._start(place)
                if self.signals and not any(place.child for place in places):
                    return 1 if self.killed else 0
                if len(self.signals) > passed_on:
                    if passed_on == 0:
                        kill_at = time.monotonic() + self.patience_s
                    self._pass_on(places, kill=passed_on > 0)
                    passed_on = len(self.signals)
                elif time.monotonic() >= kill_at:
                    self._pass_on(places, kill=True)
                    kill_at = float("inf")
                wait(self._pause_s(places, kill_at))

    def _start(self, place: _Place) -> None:
        place.name = new_worker_name()
        place.child = start_tethered([*self.command, "--name", place.name], death_signal=TETHER_SIGNAL)
        place.started_at = time.monotonic()
        log.info("worker process started", worker=place.name, pid=place.child.pid)

    def _reap(self, place: _Place) -> None:
        if place.child is None or (code := place.child.poll()) is None:
            return
        place.child = None
        if code != 0:
            # A worker that ended well handed its turns back itself.
            try:
                self.release(place.name)
            except OperatorError as error:
                log.warning("the turns of a dead worker wait for the sweep", worker=place.name, error=str(error))
        if self.signals:
            return
        short = time.monotonic() - place.started_at < _SHORT_LIFE_S
        place.short_lives = place.short_lives + 1 if short else 0
        # One early death is replaced at once; a child that cannot start must not burn a processor.
        pause_s = min(_FIRST_PAUSE_S * 2 ** (place.short_lives - 2), _LONGEST_PAUSE_S) if place.short_lives > 1 else 0.0
        place.start_at = time.monotonic() + pause_s
        log.warning("worker process ended, another is started", worker=place.name, exit_code=code, in_s=pause_s)

    def _pass_on(self, places: list[_Place], *, kill: bool) -> None:
        self.killed = self.killed or kill
        for place in places:
            if place.child is not None:
                place.child.send_signal(signal.SIGKILL if kill else signal.SIGTERM)

    def _pause_s(self, places: list[_Place], kill_at: float) -> float | None:
        """How long nothing is to be done unless a signal comes; None: for ever."""
        times = [place.start_at for place in places if place.child is None and not self.signals]
        times += [kill_at] if kill_at != float("inf") else []
        return max(0.0, min(times) - time.monotonic()) if times else None


@contextmanager
def _woken_by_signals(received: list[int]) -> Iterator[Callable[[float | None], None]]:
    """SIGTERM, SIGINT and the tether's signal are noted in ``received``; they and SIGCHLD end the wait that this gives.

    The wakeup descriptor makes that exact: a signal that comes before the wait ends it as well.
    """

    def note(number: int, _frame: FrameType | None) -> None:
        if number in (signal.SIGTERM, signal.SIGINT) or (number == TETHER_SIGNAL and not received):
            received.append(number)

    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    before_fd = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    before = {number: signal.signal(number, note) for number in (*_STOPS, signal.SIGCHLD)}

    def wait(timeout_s: float | None) -> None:
        if select.select([reader], [], [], timeout_s)[0]:
            os.read(reader, 4096)

    try:
        yield wait
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(before_fd)
        os.close(reader)
        os.close(writer)
