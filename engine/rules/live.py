"""Rules that follow their files while the system runs.

It owns freshness: each judgement looks at the files (one stat each), reads what changed, and keeps the last good
rules when the new text is bad. An agent's file that disappears denies everything; a project-wide file that
disappears keeps its guardrails, because the moment between an editor's delete and create must not lift a denial.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import structlog

from engine.rules.load import parse_rules
from engine.rules.ruleset import RuleSet
from engine.rules.verdict import Scope, Verdict
from engine.watched_file import WatchedFile
from engine.yaml_file import read_bytes
from protocol.errors import ConfigurationError

_log = structlog.get_logger("engine.rules")


class _RuleFile:
    def __init__(self, path: Path, label: str) -> None:
        self.path = path
        self.label = label
        self.rules = RuleSet(is_missing=True)
        self.problem: str | None = None
        self._watched = WatchedFile(path)
        self._content: bytes | None = None

    def load(self) -> None:
        """Read it for the first time. Raises ConfigurationError."""
        self._watched.changed()
        self._read()

    def refresh(self) -> bool:
        """Read it again if it may have changed; True when other rules are in force now. Never raises."""
        if not self._watched.changed():
            return False
        before = self.rules
        try:
            self._read()
            self.problem = None
        except ConfigurationError as error:
            if self.problem != str(error):
                _log.error("bad rules, the last good ones stay in force", problem=str(error))
            self.problem = str(error)
        return self.rules is not before

    def _read(self) -> None:
        try:
            content = read_bytes(self.path)
        except FileNotFoundError:
            self._content, self.rules = None, RuleSet(is_missing=True)
            return
        if content != self._content:
            self.rules = parse_rules(content, str(self.path), self.label)
            self._content = content


class _GuardrailFile(_RuleFile):
    def _read(self) -> None:
        if self._content is not None and not self.path.exists():
            raise ConfigurationError(str(self.path), None, "the file is gone; its rules stay until a restart")
        super()._read()


class LiveRules:
    """An agent's actauth.yml together with the project-wide one, judged as they are at the moment of the call.

    Raises ConfigurationError when a file is bad at first; later a bad file only shows in ``problem``.
    """

    def __init__(self, path: Path, project_path: Path, label: str | None = None) -> None:
        self._agent = _RuleFile(path, label or path.name)
        self._project = _GuardrailFile(project_path, project_path.name)
        self._agent.load()
        self._project.load()
        self._combined = self._combine()

    @property
    def problem(self) -> str | None:
        """Why the files as they are now are not the rules in force; None when they are."""
        self.current()
        return self._agent.problem or self._project.problem

    def current(self) -> RuleSet:
        """The rules in force now."""
        if self._agent.refresh() | self._project.refresh():
            self._combined = self._combine()
        return self._combined

    def judge(self, scope: Scope, tool: str, args: dict[str, Any]) -> Verdict:
        return self.current().judge(scope, tool, args)

    def _combine(self) -> RuleSet:
        return self._agent.rules.guarded_by(self._project.rules)
