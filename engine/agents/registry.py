"""The agents of a folder, each loaded when it is first asked for and watched from then on.

A broken folder is a problem with a file and a line; the others work. A change of agent.yml is picked up within a
second and a bad one leaves the last good agent in force (actauth.yml: engine.rules.live). Python runs once per process;
only a folder that could not be loaded is tried again, when something in it has changed.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from engine.agents.agent_file import read_agent_file
from engine.agents.code import AgentCode, load_code
from engine.agents.loaded import LoadedAgent, compose
from engine.rules.live import LiveRules
from engine.settings import Settings
from engine.watched_file import WatchedFile
from protocol.errors import AgentUnavailable, ConfigurationError, NotFound

RULES_FILE = "actauth.yml"

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_log = structlog.get_logger("engine.agents")


class AgentRegistry:
    """``recheck_s``: an agent's files are looked at no more often than this, however often it is asked for."""

    def __init__(
        self,
        agents_dir: Path,
        settings: Settings,
        *,
        recheck_s: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.agents_dir = agents_dir
        self.settings = settings
        self._recheck_s = recheck_s
        self._clock = clock
        self._entries: dict[str, _Entry] = {}
        self._lock = threading.RLock()

    def get(self, name: str) -> LoadedAgent:
        """Raises NotFound when there is no such folder, AgentUnavailable (with file and line) when it is broken."""
        with self._lock:
            return self._entry(name).agent()

    def names(self) -> list[str]:
        """The agents that can run, sorted. Loads what has not been loaded."""
        with self._lock:
            return [name for name in self._folders() if _is_legal(name) and self._entry(name).loaded is not None]

    def problems(self) -> dict[str, str]:
        """What is wrong, by folder: why it cannot be loaded, or which changed file is not in force."""
        with self._lock:
            found: dict[str, str | None] = {}
            for name in self._folders():
                if _is_legal(name):
                    found[name] = self._entry(name).current_problem()
                else:
                    found[name] = "a folder's name must be 1 to 64 of a-z 0-9 - and not begin with -"
            return {name: problem for name, problem in found.items() if problem is not None}

    def _folders(self) -> list[str]:
        if not self.agents_dir.is_dir():
            return []
        return sorted(path.name for path in self.agents_dir.iterdir() if path.name[0] not in "._" and path.is_dir())

    def _entry(self, name: str) -> _Entry:
        entry = self._entries.get(name) if _is_legal(name) else None
        now = self._clock()
        if entry is not None and now - entry.checked_at < self._recheck_s:
            return entry
        folder = self.agents_dir / name
        if not _is_legal(name) or not folder.is_dir():
            self._entries.pop(name, None)
            raise NotFound(f"there is no agent named {name[:80]!r}")
        if entry is None:
            entry = self._entries[name] = _Entry(name, folder, self.agents_dir.absolute().parent / RULES_FILE)
        entry.checked_at = now
        entry.refresh()
        return entry


def _is_legal(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


class _Entry:
    """One folder: the last good agent, and what is wrong with the folder as it is now."""

    def __init__(self, name: str, folder: Path, guardrails: Path) -> None:
        self.name = name
        self.folder = folder
        self.guardrails = guardrails
        self.checked_at = float("-inf")
        self.loaded: LoadedAgent | None = None
        self.problem: str | None = None
        self._code: AgentCode | None = None
        self._rules: LiveRules | None = None
        self._agent_file = WatchedFile(folder / "agent.yml")
        self._watched: dict[Path, WatchedFile] = {}

    def agent(self) -> LoadedAgent:
        if self.loaded is None:
            raise AgentUnavailable(self.name, self.problem or "it was not loaded")
        return self.loaded

    def current_problem(self) -> str | None:
        return self.problem or (self._rules.problem if self._rules is not None else None)

    def refresh(self) -> None:
        """Load it, or what has changed of it. Never raises for what a file contains."""
        is_first = self.loaded is None
        if not (self._anything_changed() if is_first else self._agent_file.changed()):
            return
        try:
            self._load()
            self.problem = None
        except ConfigurationError as error:
            if self.problem != str(error):
                _log.error("an agent cannot be loaded", agent=self.name, problem=str(error), kept=not is_first)
            self.problem = str(error)

    def _load(self) -> None:
        self._agent_file.changed()
        file = read_agent_file(self.folder / "agent.yml")
        if self._code is None:
            if file is None and not (self.folder / "agent.py").exists():
                raise ConfigurationError(str(self.folder), None, "found neither agent.yml nor agent.py")
            self._code = load_code(self.folder)
        if self._rules is None:
            label = f"{self.folder.parent.name}/{self.name}/{RULES_FILE}"
            self._rules = LiveRules(self.folder / RULES_FILE, self.guardrails, label)
        self.loaded = compose(self.name, self.folder, file, self._code, self._rules)

    def _anything_changed(self) -> bool:
        """Whether a folder that was broken deserves another try; its Python then runs again."""
        paths = {self.guardrails, *self.folder.glob("*.yml"), *self.folder.rglob("*.py")}
        is_other = paths != set(self._watched)
        self._watched = {path: self._watched.get(path) or WatchedFile(path) for path in paths}
        has_changed = [one.changed() for one in self._watched.values()]
        if is_other or any(has_changed):
            self._code = None
            return True
        return False
