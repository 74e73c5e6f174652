"""An agent that is ready to run: agent.yml and Python put together, what was left open filled in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, overload

from engine.agents.agent import Agent, SessionIdFor, TenantFor
from engine.agents.agent_file import AgentFile, model_config
from engine.agents.code import AgentCode
from engine.models.build import build_model
from engine.models.config import DEFAULT_MAX_TOKENS, ModelConfig
from engine.models.contract import Model
from engine.rules.ruleset import Rules
from engine.rules.verdict import Scope, Verdict
from engine.settings import Settings
from engine.tools.system import SYSTEM_TOOLS
from engine.tools.tool import Tool
from engine.yaml_file import Where
from protocol.errors import ConfigurationError

DEFAULT_MAX_TURNS = 25
DEFAULT_CONTEXT_BUDGET_TOKENS = 8_000


@dataclass(frozen=True)
class LoadedAgent:
    """``model_config`` is None when the author brought a model object. ``fingerprint``: 32 hex characters over all
    that the model sees and is (prompt, tools with schemas and kinds, model), not over the rules."""

    name: str
    folder: Path
    system_prompt: str
    model_config: ModelConfig | None
    tools: dict[str, Tool]
    rules: Rules
    max_turns: int = DEFAULT_MAX_TURNS
    context_budget_tokens: int = DEFAULT_CONTEXT_BUDGET_TOKENS
    max_tokens: int = DEFAULT_MAX_TOKENS
    fingerprint: str = ""
    turn_timeout_s: float | None = None
    max_tokens_per_turn: int | None = None
    max_tool_calls: int | None = None
    tool_description: str | None = None
    tenant_for: TenantFor | None = field(default=None, repr=False)
    session_id_for: SessionIdFor | None = field(default=None, repr=False)
    custom_model: Model | None = field(default=None, repr=False)

    def model(self, settings: Settings) -> Model:
        """The model to call; cheap. Raises ModelKeyMissing, and ConfigurationError for a bad script."""
        if self.custom_model is not None:
            return self.custom_model
        return build_model(self.model_config or ModelConfig(), self.folder, settings)

    def judge(self, scope: Scope, tool: str, args: dict[str, Any]) -> Verdict:
        """What the rules say to a valid call of a known tool, left-out arguments judged at their defaults."""
        return self.rules.judge(scope, tool, self.tools[tool].with_defaults(args))


def compose(name: str, folder: Path, file: AgentFile | None, code: AgentCode, rules: Rules) -> LoadedAgent:
    """Put an agent together; what agent.py sets wins over agent.yml. Raises ConfigurationError."""
    agent = code.agent or Agent()
    said = file or AgentFile()
    _check_name(name, folder, said, agent)
    prompt = agent.system_prompt or said.system_prompt
    if not prompt or not prompt.strip():
        raise _problem(folder, said, (), "there is no systemPrompt; say who the agent is")
    config, custom = _model(folder, said, agent)
    max_tokens = _count(folder, agent.max_tokens, config.max_tokens if config else None, DEFAULT_MAX_TOKENS)
    budget = _count(folder, agent.context_budget_tokens, said.context_budget_tokens, DEFAULT_CONTEXT_BUDGET_TOKENS)
    tools = {**_system_tools(folder, said, agent), **code.tools}
    return LoadedAgent(
        name=name,
        folder=folder,
        system_prompt=prompt,
        model_config=config,
        custom_model=custom,
        tools=tools,
        rules=rules,
        max_turns=_count(folder, agent.max_turns, said.max_turns, DEFAULT_MAX_TURNS),
        context_budget_tokens=budget,
        max_tokens=max_tokens,
        turn_timeout_s=_seconds(folder, agent.turn_timeout_s, said.turn_timeout_s),
        max_tokens_per_turn=_count(folder, agent.max_tokens_per_turn, said.max_tokens_per_turn, None),
        max_tool_calls=_count(folder, agent.max_tool_calls, said.max_tool_calls, None),
        fingerprint=_fingerprint(prompt, tools, config, custom, max_tokens),
        tool_description=said.tool_description,
        tenant_for=code.tenant_for,
        session_id_for=code.session_id_for,
    )


def _check_name(name: str, folder: Path, said: AgentFile, agent: Agent) -> None:
    if said.name not in (None, name):
        raise _problem(folder, said, ("name",), f"found the name {said.name!r}, expected the folder's: {name!r}")
    if agent.name not in (None, name):
        words = f"found Agent(name={agent.name!r}), expected the folder's name {name!r}"
        raise _problem(folder, AgentFile(), (), words)


def _problem(folder: Path, said: AgentFile, where: Where, words: str) -> ConfigurationError:
    if said.document is not None:
        return said.document.problem(where, words)
    return ConfigurationError(str(folder / "agent.py"), None, words)


def _model(folder: Path, said: AgentFile, agent: Agent) -> tuple[ModelConfig | None, Model | None]:
    written = agent.model
    if written is None:
        return said.model or ModelConfig(), None
    if isinstance(written, ModelConfig):
        return written, None
    if isinstance(written, str | Mapping):
        try:
            return model_config(written), None
        except ValueError as error:
            raise _problem(folder, AgentFile(), (), str(error)) from error
    if not callable(getattr(written, "answer", None)):
        words = f"found a {type(written).__name__} as model, expected a name, a mapping or an object with answer()"
        raise _problem(folder, AgentFile(), (), words)
    return None, written


def _system_tools(folder: Path, said: AgentFile, agent: Agent) -> dict[str, Tool]:
    source = AgentFile() if agent.system_tools is not None else said
    names = agent.system_tools if agent.system_tools is not None else said.system_tools
    if names is None:
        return dict(SYSTEM_TOOLS)
    for name in names:
        if name not in SYSTEM_TOOLS:
            words = f"found the system tool {name!r}, expected one of {', '.join(SYSTEM_TOOLS)}"
            raise _problem(folder, source, ("systemTools",), words)
    return {name: SYSTEM_TOOLS[name] for name in names}


@overload
def _count(folder: Path, from_code: int | None, from_file: int | None, default: int) -> int: ...
@overload
def _count(folder: Path, from_code: int | None, from_file: int | None, default: None) -> int | None: ...
def _count(folder: Path, from_code: int | None, from_file: int | None, default: int | None) -> int | None:
    if from_code is None:
        return from_file or default
    if isinstance(from_code, bool) or not isinstance(from_code, int) or from_code < 1:
        words = f"found {from_code!r} as a limit of the agent, expected a whole number above 0"
        raise ConfigurationError(str(folder / "agent.py"), None, words)
    return from_code


def _seconds(folder: Path, from_code: float | None, from_file: float | None) -> float | None:
    if from_code is None:
        return from_file
    if isinstance(from_code, bool) or not isinstance(from_code, int | float) or not 0 < from_code < float("inf"):
        words = f"found {from_code!r} as the agent's turn_timeout_s, expected seconds above 0"
        raise ConfigurationError(str(folder / "agent.py"), None, words)
    return float(from_code)


def _fingerprint(
    prompt: str, tools: dict[str, Tool], config: ModelConfig | None, custom: Model | None, max_tokens: int
) -> str:
    model = asdict(config) if config is not None else {"custom": type(custom).__qualname__}
    seen = [[one.name, one.description, one.input_schema, one.kind] for _, one in sorted(tools.items())]
    text = json.dumps([prompt, seen, model, max_tokens], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
