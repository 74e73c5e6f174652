"""POL-01: a broad allow next to a narrow ask and deny."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.agents.loaded import LoadedAgent
from engine.agents.registry import AgentRegistry
from engine.rules.explain import explain
from engine.rules.verdict import Scope
from engine.settings import Settings
from tests.cases.client import Client, types_of
from tests.cases.ledger import asks, says, use, write_agent
from tests.cases.product import Product, case
from tests.processes import REPOSITORY

RULES = [
    '  - {scope: "*/*", tool: "*", decision: allow}',
    '  - {scope: "*/*", tool: "ledger_*", decision: ask}',
    '  - {scope: "*/*", tool: "ledger_add", when: {key: "prod/*"}, decision: deny}',
    '  - {scope: "*/*", tool: "*_all", decision: deny}',
]
TOOLS = '''
from loopengine import tool


@tool(read_only=True)
def read_note() -> str:
    """Read the note."""
    return "the note says hi"


@tool
def ledger_add(key: str, amount: int | None = None) -> str:
    """Add to the ledger."""
    return f"added {key}"


@tool
def wipe_all() -> str:
    """Wipe everything."""
    return "wiped"
'''
TABLE: list[tuple[str, dict[str, Any], str, str | None]] = [
    ("read_note", {}, "allow", RULES[0]),
    ("ledger_add", {"key": "a"}, "ask", RULES[1]),
    ("ledger_add", {"key": "prod/x"}, "deny", RULES[2]),
    ("ledger_add", {"key": "prod"}, "ask", RULES[1]),
    ("LEDGER_ADD", {"key": "prod/x"}, "unknown", None),
    ("wipe_all", {}, "deny", RULES[3]),
]
SCOPE = Scope("acme", "test", "ledger")
ORDERS, REAL_ORDERS = 20, 6


def order_of(seed: int) -> list[str]:
    """The rules in one of 20 random orders; the first is that of the file."""
    return random.Random(seed).sample(RULES, len(RULES)) if seed else RULES


def ledger_agent(project: Path, rules: list[str]) -> LoadedAgent:
    folder = project / "agents" / "ledger"
    (folder / "tools").mkdir(parents=True)
    (folder / "agent.yml").write_text("systemPrompt: You keep a ledger.\nmodel: {provider: scripted, script: s.yml}\n")
    (folder / "tools" / "ledger.py").write_text(TOOLS)
    (folder / "actauth.yml").write_text("default_decision: ask\nrules:\n" + "\n".join(rules) + "\n")
    return AgentRegistry(project / "agents", Settings()).get("ledger")


@pytest.mark.parametrize("seed", range(ORDERS))
def test_every_order_of_the_rules_gives_every_call_its_effect(tmp_path: Path, seed: int) -> None:
    order = order_of(seed)
    agent = ledger_agent(tmp_path, order)
    for tool, args, effect, rule in TABLE:
        said = explain(agent, SCOPE, tool, args)
        # "These effects, in check and in run alike": the rows of the table
        # "`LEDGER_ADD {"key":"prod/x"}` | unknown tool, never allow"
        assert said["effect"] == effect
        # "Order in the file does not matter; deny beats ask beats allow among matching rules (...; the same in check
        # and in run)": the gate of a turn asks these very rules
        if effect != "unknown":
            assert agent.rules.judge(SCOPE, tool, args).decision == effect
        # "The check names the rule that decided."
        expected = f"agents/ledger/actauth.yml:{order.index(rule) + 3}" if rule else None
        assert said["rule"] == expected


@pytest.mark.parametrize("literal", ["*", "a?c", "[ab]", "back\\slash", "two\nlines", "prod/*"])
def test_a_rule_for_a_literal_argument_matches_that_argument_only(tmp_path: Path, literal: str) -> None:
    written = literal.replace("\\", "\\\\").replace("\n", "\\n")
    agent = ledger_agent(tmp_path, [f'  - {{tool: ledger_add, when: {{key: {{eq: "{written}"}}}}, decision: allow}}'])
    # "2: the saved rule matches that literal call only."
    assert agent.rules.judge(SCOPE, "ledger_add", {"key": literal}).decision == "allow"
    for near in ("x", "abc", "a", "prod/x", "back/slash", "two lines", literal + " ", literal.upper() + "x"):
        assert agent.rules.judge(SCOPE, "ledger_add", {"key": near}).decision == "ask"


@pytest.mark.parametrize("name", ["Read_Note", "read_note ", " read_note", "read_n\u043ete", "READ_NOTE"])
def test_a_name_that_only_looks_like_a_tool_matches_nothing(tmp_path: Path, name: str) -> None:
    agent = ledger_agent(tmp_path, RULES)
    said = explain(agent, SCOPE, name, {})
    # "3: no match by accident."
    assert (said["effect"], said["rule"], said["matched"]) == ("unknown", None, [])
    assert "There is no tool named" in said["reason"]
    assert "ask_user, ledger_add, read_note, wipe_all" in said["reason"]


async def test_a_real_call_meets_what_the_check_says_whatever_the_order(redis_url: str, tmp_path: Path) -> None:
    # 1. "`pol01.yml`, and its rules in 20 random orders. For each call of the table (...) really make the call."
    # (In some of them: the test above has every order, with the rules that a turn asks.)
    scripts = {
        f"^row {row}$": [asks(use(f"toolu_{row}", tool, **args)), says("So it is.")]
        for row, (tool, args, _, _) in enumerate(TABLE)
    }
    async with case(redis_url, tmp_path, scripts, workers=2) as product:
        for seed in range(REAL_ORDERS):
            rules = [rule.removeprefix("  - ") for rule in order_of(seed)]
            write_agent(product.folder / "agents", "openai", rules, name=f"order-{seed}")
        rows = [(seed, row) for seed in range(REAL_ORDERS) for row in range(len(TABLE))]
        effects = await asyncio.gather(*(effect_of(product.client, seed, row) for seed, row in rows))
        # "Order in the file does not matter;" "These effects, in check and in run alike"
        assert effects == [TABLE[row][2] for _, row in rows]
        # What was asked about or denied has not run, and nobody wiped anything.
        assert sorted(set(product.ledger.lines)) == ["read"]
        assert product.ledger.count("read") == REAL_ORDERS
        await asyncio.gather(*(the_check_agrees(product, row) for row in range(len(TABLE))))


async def effect_of(client: Client, seed: int, row: int) -> str:
    """What became of the call of a row in a turn."""
    answer = (await client.say(None, f"row {row}", wait_s=60, agent=f"order-{seed}")).json()
    results = [event["statusText"] for event in answer["events"] if event["type"] == "tool:result"]
    if types_of(answer["events"])[-1] == "approval:pending":
        assert (answer["tool"], results) == (TABLE[row][0], [])
        return "ask"
    assert (answer["text"], answer.get("stopReason"), len(results)) == ("So it is.", None, 1)
    return {"Approved.": "allow", "Denied.": "deny", "Error.": "unknown"}[results[0]]


async def the_check_agrees(product: Product, row: int) -> None:
    """The product's check command, for the first order."""
    tool, args, effect, rule = TABLE[row]
    command = [
        sys.executable,
        "-m",
        "loopengine",
        "check",
        "order-0",
        "--tool",
        tool,
        "--args",
        json.dumps(args),
        "--json",
    ]
    ended = await asyncio.to_thread(
        subprocess.run,
        command,
        cwd=product.folder,
        env={**product.env, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        timeout=60,
    )
    said = json.loads(ended.stdout)
    # "The check names the rule that decided."
    expected = f"agents/order-0/actauth.yml:{RULES.index(rule) + 3}" if rule else None
    assert (said["effect"], said["rule"]) == (effect, expected)
