"""From a folder to an agent that can run: YAML, Python, or both."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.models.config import ModelConfig
from engine.rules.verdict import Scope
from engine.settings import Settings
from engine.tools.run import run_tool
from protocol.errors import AgentUnavailable
from tests.agents.folders import TOOL, YAML, registry, write_agent
from tests.tools.contexts import a_context

FULL = """
name: shop
systemPrompt: |
  You help.
model: {provider: anthropic, model: claude-x, maxTokens: 99, baseUrl: "http://localhost:1"}
maxTurns: 3
contextBudgetTokens: 123
systemTools: []
toolDescription: Ask the shop.
"""


def test_agent_yml_alone_is_enough(tmp_path: Path) -> None:
    write_agent(tmp_path, "shop", agent__yml=FULL)
    agent = registry(tmp_path).get("shop")
    assert (agent.name, agent.system_prompt, agent.tool_description) == ("shop", "You help.\n", "Ask the shop.")
    assert agent.model_config == ModelConfig("anthropic", "claude-x", 99, "http://localhost:1")
    assert (agent.max_turns, agent.context_budget_tokens, agent.max_tokens) == (3, 123, 99)
    assert agent.tools == {}


def test_what_is_left_out_has_its_default(tmp_path: Path) -> None:
    write_agent(tmp_path, "shop", agent__yml="systemPrompt: You help.\n")
    agent = registry(tmp_path).get("shop")
    assert (agent.max_turns, agent.context_budget_tokens) == (25, 8000)
    assert agent.model_config == ModelConfig()
    assert list(agent.tools) == ["ask_user"]
    assert agent.rules.judge(Scope("a", "b", "shop"), "ask_user", {}).decision == "deny"


def test_agent_py_wins_on_what_it_sets(tmp_path: Path) -> None:
    code = """
from loopengine import Agent

def extra(a: int) -> int:
    "Extra."
    return a

agent = Agent(system_prompt="From code.", max_turns=7, tools=[extra])

def tenant_for(headers):
    return headers.get("x-tenant")

def session_id_for(body):
    return body.get("id")
"""
    write_agent(tmp_path, "shop", agent__py=code, agent__yml=YAML + "maxTurns: 3\ncontextBudgetTokens: 123\n")
    agent = registry(tmp_path).get("shop")
    assert (agent.system_prompt, agent.max_turns, agent.context_budget_tokens) == ("From code.", 7, 123)
    assert agent.model_config == ModelConfig("scripted", script="script.yml")
    assert sorted(agent.tools) == ["ask_user", "extra"]
    assert agent.tenant_for is not None
    assert agent.tenant_for({"x-tenant": "acme"}) == "acme"
    assert agent.session_id_for is not None
    assert agent.session_id_for({"id": "s"}) == "s"


def test_a_model_may_be_an_object_in_python(tmp_path: Path) -> None:
    code = """
from loopengine import Agent

class Mine:
    provider = "mine"
    async def answer(self, request, on_text=None):
        raise NotImplementedError

agent = Agent(system_prompt="x", model=Mine())
"""
    folder = write_agent(tmp_path, "shop", agent__py=code)
    (folder / "agent.yml").unlink()
    agent = registry(tmp_path).get("shop")
    assert agent.model_config is None
    assert agent.model(Settings()).provider == "mine"


async def test_every_tool_in_tools_is_found_and_underscored_files_are_for_sharing(tmp_path: Path) -> None:
    write_agent(
        tmp_path,
        "shop",
        tools__look__py=TOOL,
        tools___data__py="SECRET = 'shared'\n" + TOOL.replace("look", "hidden"),
        tools__more__py=TOOL.replace("def look", "def more").replace(
            "from loopengine", "from ._data import SECRET\nfrom .look import look\nfrom loopengine"
        ).replace("saw {what}", "{SECRET} {what}"),
    )  # fmt: skip
    agent = registry(tmp_path).get("shop")
    assert sorted(agent.tools) == ["ask_user", "look", "more"]
    outcome = await run_tool(agent.tools["more"], {"what": "this"}, a_context(), 30)
    assert outcome.content == "shared this"


async def test_two_agents_may_have_files_of_one_name(tmp_path: Path) -> None:
    for name in ("first", "second"):
        write_agent(tmp_path, name, tools__look__py=TOOL.replace("saw", name), agent__py=f"NAME = {name!r}\n")
    agents = registry(tmp_path)
    for name in ("first", "second"):
        outcome = await run_tool(agents.get(name).tools["look"], {"what": "it"}, a_context(), 30)
        assert outcome.content == f"{name} it"


def test_what_agent_code_prints_goes_to_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_agent(tmp_path, "shop", tools__look__py="print('loading')\n" + TOOL, agent__py="print('again')\n")
    registry(tmp_path).get("shop")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "loading\nagain\n"


def test_the_fingerprint_follows_what_the_model_sees(tmp_path: Path) -> None:
    def fingerprint(name: str, **files: str) -> str:
        write_agent(tmp_path / name, "shop", **files)
        return registry(tmp_path / name).get("shop").fingerprint

    plain = fingerprint("a", tools__look__py=TOOL)
    assert len(plain) == 32
    assert fingerprint("b", tools__look__py=TOOL, actauth__yml="rules: []") == plain
    others = [
        fingerprint("c", tools__look__py=TOOL, agent__yml=YAML.replace("help", "work")),
        fingerprint("d", tools__look__py=TOOL.replace("@tool", "@tool(read_only=True)")),
        fingerprint("e", tools__look__py=TOOL.replace("what: str", "what: str, more: int = 1")),
        fingerprint("f", tools__look__py=TOOL, agent__yml="systemPrompt: You help.\n"),
    ]
    assert len({plain, *others}) == 5


BROKEN: list[tuple[str, dict[str, str], str]] = [
    ("unknown word", {"agent__yml": YAML + "maxTurn: 5\n"}, "agent.yml:3: found 'maxTurn', expected one of"),
    ("limit", {"agent__yml": YAML + "maxTurns: 0\n"}, "agent.yml:3: found the number 0 as 'maxTurns'"),
    ("no prompt", {"agent__yml": "maxTurns: 5\n"}, "agent.yml:1: there is no systemPrompt"),
    ("other name", {"agent__yml": YAML + "name: store\n"}, "agent.yml:3: found the name 'store', expected"),
    ("model word", {"agent__yml": "systemPrompt: x\nmodel:\n  provder: openai\n"}, "agent.yml:3: found 'provder'"),
    ("provider", {"agent__yml": "systemPrompt: x\nmodel: {provider: acme}\n"}, "agent.yml:2: unknown model provider"),
    ("system tool", {"agent__yml": YAML + "systemTools: [ask]\n"}, "agent.yml:3: found the system tool 'ask'"),
    ("tab", {"agent__yml": "systemPrompt: x\nmodel:\n\tprovider: openai\n"}, "agent.yml:3: found a tab"),
    ("rules", {"actauth__yml": "rules:\n- {tool: x, decision: yes}\n"}, "actauth.yml:2: found the text 'yes'"),
    ("syntax", {"tools__look__py": "x = 1\ndef broken(:\n"}, "look.py:2: SyntaxError"),
    ("import", {"tools__look__py": "import json\nimport no_such_module_here\n"}, "look.py:2: ModuleNotFoundError"),
    ("raises", {"agent__py": "\n\nraise RuntimeError('not today')\n"}, "agent.py:3: RuntimeError: not today"),
    ("exits", {"agent__py": "import sys\nsys.exit(1)\n"}, "agent.py:2: SystemExit: 1"),
    ("not an agent", {"agent__py": "agent = 5\n"}, "agent.py: `agent` is of type int"),
    ("untyped", {"tools__look__py": TOOL.replace("what: str", "what")}, "look.py:5: TypeError: tool 'look'"),
    ("twice", {"tools__a__py": TOOL, "tools__b__py": TOOL}, "b.py: a second tool named 'look'; the first is in"),
    ("reserved", {"tools__a__py": TOOL.replace("look", "ask_user")}, "a.py: the tool name 'ask_user' is reserved"),
    (
        "bad limit in code",
        {"agent__py": "from loopengine import Agent\nagent = Agent(max_turns=0)\n"},
        "agent.py: found 0 as a limit",
    ),
]


@pytest.mark.parametrize(("files", "problem"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_broken_folder_is_named_with_file_and_line_and_the_others_work(
    tmp_path: Path, files: dict[str, str], problem: str
) -> None:
    write_agent(tmp_path, "broken", **files)
    write_agent(tmp_path, "fine", tools__look__py=TOOL)
    agents = registry(tmp_path)
    with pytest.raises(AgentUnavailable) as caught:
        agents.get("broken")
    assert problem in str(caught.value)
    assert agents.names() == ["fine"]
    assert list(agents.problems()) == ["broken"]
