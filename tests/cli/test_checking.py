"""`check`: mistakes with file and line, and the rule that decides a call."""

from __future__ import annotations

import json

import pytest
import redis

from tests.cli.shell import Shell

REFUND = json.dumps({"orderId": "A-1001", "amount": 42.0})


def test_nothing_to_find_is_exit_code_0(shell: Shell) -> None:
    assert shell.run("check").code == 0
    assert shell.run("check", "--json").records[-1] == {
        "type": "check:result",
        "ok": True,
        "problems": 0,
        "agents": ["customer-service"],
    }


@pytest.mark.parametrize(
    ("file", "text", "line"),
    [
        ("agent.yml", "name: customer-service\nsystemPromt: hi\n", 2),
        ("actauth.yml", "default_decision: deny\nrules:\n  - tool: x\n    decision: perhaps\n", 4),
        ("tools/orders.py", "import nothing_like_this\n", 1),
        ("script.yml", "conversations:\n  - stepz: []\n", 2),
    ],
)
def test_a_mistake_in_a_file_is_named_with_its_line(shell: Shell, file: str, text: str, line: int) -> None:
    path = shell.folder / "agents" / "customer-service" / file
    path.write_text(text)

    checked = shell.run("check", "--json")

    assert checked.code == 1
    (problem,) = [record for record in checked.records if record["type"] == "check:problem"]
    assert problem["file"].endswith(file)
    assert problem["line"] == line
    assert f"{file}:{line}: " in shell.run("check", "customer-service").text


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("{tool: issue_refnd, decision: deny}", "there is no tool 'issue_refnd' (did you mean 'issue_refund'?)"),
        (
            "{tool: 'issue_*', when: {amout: {gt: 100}}, decision: deny}",
            "issue_* has no argument 'amout' (did you mean 'amount'?)",
        ),
    ],
)
def test_a_rule_that_can_never_speak_up_is_a_warning(shell: Shell, rule: str, said: str) -> None:
    rules = shell.folder / "agents" / "customer-service" / "actauth.yml"
    n_lines = len(rules.read_text().splitlines())
    rules.write_text(rules.read_text() + f"  - {rule}\n")

    checked = shell.run("check", "--json")

    assert checked.code == 0
    (warning,) = [record for record in checked.records if record["type"] == "check:warning"]
    assert said in warning["problem"]
    assert warning["line"] == n_lines + 1


def test_rules_for_tools_to_come_and_of_the_whole_project_are_no_warning(shell: Shell) -> None:
    with (shell.folder / "agents" / "customer-service" / "actauth.yml").open("a") as rules:
        rules.write("  - {tool: 'mcp_*', when: {path: '/etc/*'}, decision: deny}\n")
    (shell.folder / "actauth.yml").write_text("rules:\n  - {tool: delete_account, decision: deny}\n")

    assert shell.run("check", "--json").types == ["check:result"]


def test_a_store_that_throws_data_away_is_a_problem(shell: Shell, redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            checked = shell.run("check", "--json")
            refused = shell.run("worker")
        finally:
            client.config_set("maxmemory-policy", "noeviction")

    assert checked.code == 1
    assert "noeviction" in checked.records[0]["problem"]
    assert refused.code == 1
    assert "noeviction" in refused.err


def test_a_store_of_another_partitioning_or_none_is_a_problem(shell: Shell) -> None:
    assert shell.run("check").code == 0
    assert "LOOPENGINE_PARTITIONS=1" in shell.run("check", env={"LOOPENGINE_PARTITIONS": "3"}).text
    away = shell.run("check", "--redis-url", "redis://127.0.0.1:1/0", "--json")
    assert (away.code, away.records[0]["about"]) == (1, "store")


@pytest.mark.parametrize(
    ("scope", "effect", "rule"),
    [
        ([], "ask", "refunds-need-approval"),
        (["--env", "staging"], "allow", "staging-refunds-are-play-money"),
        (["--tenant", "acme-corp"], "allow", "acme-trusts-its-agent-with-refunds"),
    ],
)
def test_the_rule_that_decides_a_call_is_named(shell: Shell, scope: list[str], effect: str, rule: str) -> None:
    call = ["check", "customer-service", "--tool", "issue_refund", "--args", REFUND, *scope]

    (judged,) = shell.run(*call, "--json").records

    assert (judged["type"], judged["effect"], judged["rule"]) == ("check:call", effect, rule)
    told = shell.run(*call)
    assert told.code == 0
    assert told.text.startswith(f"{effect}: issue_refund")
    assert "actauth.yml:" in told.text


def test_a_call_is_judged_without_a_store(shell: Shell) -> None:
    call = ["check", "customer-service", "--tool", "no_such_tool", "--json"]

    (judged,) = shell.run(*call, env={"REDIS_URL": "redis://127.0.0.1:1/0"}).records

    assert judged["effect"] == "unknown"


@pytest.mark.parametrize("arguments", ["{", "[]", "{'a': 1}", '{"a": NaN}'])
def test_arguments_that_are_no_json_object_are_wrong_usage(shell: Shell, arguments: str) -> None:
    wrong = shell.run("check", "customer-service", "--tool", "issue_refund", "--args", arguments)

    assert (wrong.code, wrong.out) == (2, b"")
    assert "--args" in wrong.err


POL01 = """default_decision: ask
rules:
  - {scope: "*/*", tool: "*", decision: allow}
  - {scope: "*/*", tool: "ledger_*", decision: ask}
  - {scope: "*/*", tool: "ledger_add", when: {key: "prod/*"}, decision: deny}
  - {scope: "*/*", tool: "*_all", decision: deny}
"""
POL01_TOOLS = """
from loopengine import tool


@tool(read_only=True)
def read_note() -> str:
    return "hi"


@tool
def ledger_add(key: str) -> str:
    return key


@tool
def wipe_all() -> str:
    return "wiped"
"""


def test_the_command_says_what_a_broad_allow_beside_narrow_rules_does(shell: Shell) -> None:
    agent = shell.folder / "agents" / "customer-service"
    (agent / "actauth.yml").write_text(POL01)
    (agent / "tools" / "notes.py").write_text(POL01_TOOLS)
    table = [
        ("read_note", {}, "allow", 3),
        ("ledger_add", {"key": "a"}, "ask", 4),
        ("ledger_add", {"key": "prod/x"}, "deny", 5),
        ("ledger_add", {"key": "prod"}, "ask", 4),
        ("LEDGER_ADD", {"key": "prod/x"}, "unknown", None),
        ("wipe_all", {}, "deny", 6),
    ]

    for tool, args, effect, line in table:
        (judged,) = shell.run("check", "customer-service", "--tool", tool, "--args", json.dumps(args), "--json").records
        assert judged["effect"] == effect
        assert (judged["matched"][0]["line"] if line else judged["rule"]) == line
