"""The Python of an agent's folder: agent.py and tools/*.py, run once under module names of their own.

Each folder becomes a private package, so that two agents may have files of one name, files may import their
neighbours (``from ._orders import find``), and nothing here is importable as ``agents``. Whatever the code prints
while it is loaded goes to stderr: stdout belongs to the product's records.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.machinery
import importlib.util
import itertools
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from engine.agents.agent import Agent, SessionIdFor, TenantFor
from engine.tools.decorator import tool
from engine.tools.system import RESERVED_NAMES
from engine.tools.tool import Tool
from protocol.errors import ConfigurationError

_generation = itertools.count(1)


@dataclass(frozen=True)
class AgentCode:
    """What the Python of a folder defines. ``agent`` None: there is no agent.py, or it defines none."""

    agent: Agent | None = None
    tools: dict[str, Tool] = field(default_factory=dict)
    tenant_for: TenantFor | None = None
    session_id_for: SessionIdFor | None = None


def load_code(folder: Path) -> AgentCode:
    """Run the folder's Python. Raises ConfigurationError with file and line; nothing stays imported then."""
    importlib.invalidate_caches()  # the files may be younger than the import system's view of their folder
    package = _open_package(folder.resolve())
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return _load(folder.resolve(), package)
    except BaseException:
        for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
            del sys.modules[name]
        raise


def _open_package(folder: Path) -> str:
    digest = hashlib.sha256(str(folder).encode()).hexdigest()[:12]
    name = f"_loopengine_agent_{digest}_{next(_generation)}"
    spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    sys.modules[name] = importlib.util.module_from_spec(spec)
    return name


def _load(folder: Path, package: str) -> AgentCode:
    tools = _Tools()
    for path in sorted((folder / "tools").glob("*.py")):
        if not path.name.startswith("_"):
            module = _import(folder, path, f"{package}.tools.{path.stem}")
            for value in vars(module).values():
                if isinstance(value, Tool):
                    tools.add(value, path)
    path = folder / "agent.py"
    if not path.exists():
        return AgentCode(tools=tools.found)
    module = _import(folder, path, f"{package}.agent")
    agent = _agent_of(module, path)
    for one in agent.tools if agent is not None else ():
        tools.add(one if isinstance(one, Tool) else _wrap(one, path), path)
    return AgentCode(
        agent=agent,
        tools=tools.found,
        tenant_for=(agent and agent.tenant_for) or _function(module, "tenant_for", path),
        session_id_for=(agent and agent.session_id_for) or _function(module, "session_id_for", path),
    )


class _Tools:
    """Tools by name; one that was imported into a second file counts once."""

    def __init__(self) -> None:
        self.found: dict[str, Tool] = {}
        self._files: dict[str, Path] = {}

    def add(self, one: Tool, path: Path) -> None:
        if one.name in RESERVED_NAMES:
            raise ConfigurationError(str(path), None, f"the tool name {one.name!r} is reserved; choose another name")
        known = self.found.setdefault(one.name, one)
        if known is not one:
            raise ConfigurationError(
                str(path), None, f"a second tool named {one.name!r}; the first is in {self._files[one.name]}"
            )
        self._files.setdefault(one.name, path)


def _agent_of(module: ModuleType, path: Path) -> Agent | None:
    agent = getattr(module, "agent", None)
    if agent is not None and not isinstance(agent, Agent):
        found = type(agent).__name__
        raise ConfigurationError(str(path), None, f"`agent` is of type {found}, expected `agent = Agent(...)`")
    return agent


def _function(module: ModuleType, name: str, path: Path) -> Callable[..., Any] | None:
    value = getattr(module, name, None)
    if value is not None and not callable(value):
        raise ConfigurationError(str(path), None, f"`{name}` is of type {type(value).__name__}, expected a function")
    return value


def _wrap(function: Any, path: Path) -> Tool:
    if not callable(function):
        raise ConfigurationError(str(path), None, f"found {function!r} in tools, expected a tool or a function")
    try:
        return tool(function)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(str(path), _line_of(function), str(error)) from error


def _line_of(function: Any) -> int | None:
    code = getattr(function, "__code__", None)
    return code.co_firstlineno if code is not None else None


def _import(folder: Path, path: Path, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ConfigurationError:
        raise
    except (Exception, SystemExit) as error:
        file, line = _place(error, folder, path)
        words = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ConfigurationError(file, line, f"{type(error).__name__}: {words}") from error


def _place(error: BaseException, folder: Path, path: Path) -> tuple[str, int | None]:
    """File and line to show: of a syntax error its own, else the innermost line that belongs to the agent."""
    if isinstance(error, SyntaxError) and error.filename:
        return error.filename, error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(folder)]
    return (own[-1].filename, own[-1].lineno) if own else (str(path), None)
