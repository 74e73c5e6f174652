"""Finding agents by path, and following their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.rules.verdict import Scope
from protocol.errors import AgentUnavailable, NotFound
from tests.agents.folders import TOOL, YAML, Clock, registry, write_agent

SCOPE = Scope("acme", "test", "shop")


@pytest.mark.parametrize(
    "name", ["other", "", "..", "../shop", "Shop", "shop/", "-shop", "shop\x00", "a" * 65, "shop\n"]
)
def test_an_unknown_or_impossible_name_is_not_found(tmp_path: Path, name: str) -> None:
    write_agent(tmp_path / "agents", "shop")
    with pytest.raises(NotFound):
        registry(tmp_path / "agents").get(name)


def test_a_missing_agents_folder_holds_no_agents(tmp_path: Path) -> None:
    agents = registry(tmp_path / "none")
    assert (agents.names(), agents.problems()) == ([], {})


def test_a_folder_that_cannot_be_an_agent_is_a_problem_but_hidden_ones_are_not(tmp_path: Path) -> None:
    write_agent(tmp_path, "My Agent")
    (tmp_path / "empty").mkdir()
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / ".git").mkdir()
    problems = registry(tmp_path).problems()
    assert "a folder's name must be" in problems["My Agent"]
    assert "found neither agent.yml nor agent.py" in problems["empty"]
    assert len(problems) == 2


def test_a_changed_agent_yml_is_picked_up_after_a_second_without_running_python_again(tmp_path: Path) -> None:
    folder, clock = write_agent(tmp_path, "shop", tools__look__py=TOOL), Clock()
    agents = registry(tmp_path, clock)
    before = agents.get("shop")
    (folder / "agent.yml").write_text(YAML.replace("help", "serve"))
    assert agents.get("shop") is before
    clock.now += 1
    after = agents.get("shop")
    assert after.system_prompt == "You serve."
    assert after.fingerprint != before.fingerprint
    assert after.tools["look"] is before.tools["look"]


def test_a_bad_change_keeps_the_last_good_agent_and_is_a_problem_until_it_is_mended(tmp_path: Path) -> None:
    folder, clock = write_agent(tmp_path, "shop"), Clock()
    agents = registry(tmp_path, clock)
    agents.get("shop")
    (folder / "agent.yml").write_text("systemPrompt: [\n")
    clock.now += 1
    assert agents.get("shop").system_prompt == "You help."
    assert "agent.yml:1: not valid YAML" in agents.problems()["shop"]
    (folder / "agent.yml").write_text(YAML)
    clock.now += 1
    assert agents.problems() == {}


def test_a_broken_agent_that_is_mended_works_without_a_restart(tmp_path: Path) -> None:
    folder, clock = write_agent(tmp_path, "shop", tools__look__py="def broken(:\n"), Clock()
    agents = registry(tmp_path, clock)
    for _ in range(2):
        with pytest.raises(AgentUnavailable):
            agents.get("shop")
        clock.now += 1
    (folder / "tools" / "look.py").write_text(TOOL)
    assert "look" in agents.get("shop").tools


def test_agents_come_and_go_with_their_folders(tmp_path: Path) -> None:
    clock = Clock()
    agents = registry(tmp_path, clock)
    assert agents.names() == []
    folder = write_agent(tmp_path, "shop")
    assert agents.names() == ["shop"]
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    clock.now += 1
    assert agents.names() == []
    with pytest.raises(NotFound):
        agents.get("shop")


def test_changed_rules_decide_the_next_call_of_an_agent_already_held(tmp_path: Path) -> None:
    folder = write_agent(tmp_path / "agents", "shop", tools__look__py=TOOL)
    agents = registry(tmp_path / "agents")
    agent = agents.get("shop")
    assert agent.judge(SCOPE, "look", {"what": "x"}).reason.startswith("there is no actauth.yml")
    (folder / "actauth.yml").write_text("rules: [{tool: look, decision: allow}]")
    assert agent.judge(SCOPE, "look", {"what": "x"}).decision == "allow"
    (tmp_path / "actauth.yml").write_text("rules: [{name: never, tool: look, decision: deny}]")
    assert agent.judge(SCOPE, "look", {"what": "x"}).rule == "never"
    (folder / "actauth.yml").write_text("rules: [")
    assert agent.judge(SCOPE, "look", {"what": "x"}).rule == "never"
    assert "actauth.yml:1" in agents.problems()["shop"]


def test_a_left_out_argument_is_judged_at_its_default(tmp_path: Path) -> None:
    rules = 'default_decision: allow\nrules: [{tool: look, when: {what: "prod/*"}, decision: deny}]\n'
    code = TOOL.replace("what: str", 'what: str = "prod/all"')
    write_agent(tmp_path / "agents", "shop", tools__look__py=code, actauth__yml=rules)
    agent = registry(tmp_path / "agents").get("shop")
    assert agent.judge(SCOPE, "look", {}).decision == "deny"
    assert agent.judge(SCOPE, "look", {"what": "dev"}).decision == "allow"
