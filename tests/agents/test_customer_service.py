"""The example agent: its data, its gates, and the script that shows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.agents.loaded import LoadedAgent
from engine.models.contract import Message, ModelRequest, ToolSchema
from engine.rules.verdict import Scope
from engine.settings import Settings
from engine.tools.run import run_tool
from tests.agents.folders import registry
from tests.tools.contexts import a_context


@pytest.fixture
def agent(project: Path) -> LoadedAgent:
    return registry(project / "agents").get("customer-service")


GATES = [
    ("default", "production", "lookup_order", "allow", "reading-orders-is-free"),
    ("default", "production", "get_shipment_details", "allow", "reading-shipments-is-free"),
    ("default", "production", "issue_refund", "ask", "refunds-need-approval"),
    ("default", "production", "send_email", "ask", "emails-need-approval"),
    ("default", "staging", "issue_refund", "allow", "staging-refunds-are-play-money"),
    ("default", "staging", "send_email", "allow", "staging-emails-go-nowhere"),
    ("acme-corp", "production", "issue_refund", "allow", "acme-trusts-its-agent-with-refunds"),
    ("acme-corp", "production", "send_email", "ask", "emails-need-approval"),
    ("default", "development", "issue_refund", "deny", None),
]


@pytest.mark.parametrize(("tenant", "environment", "tool", "decision", "rule"), GATES)
def test_the_gates_are_where_the_readme_says(
    agent: LoadedAgent, tenant: str, environment: str, tool: str, decision: str, rule: str | None
) -> None:
    verdict = agent.judge(Scope(tenant, environment, "customer-service"), tool, {"orderId": "A-1001"})
    assert (verdict.decision, verdict.rule) == (decision, rule)


def test_looking_is_read_only_and_refunds_and_emails_are_effects(agent: LoadedAgent) -> None:
    kinds = {name: tool.kind for name, tool in agent.tools.items()}
    assert kinds == {
        "ask_user": "read",
        "lookup_order": "read",
        "get_shipment_details": "read",
        "issue_refund": "effect",
        "send_email": "effect",
    }


async def test_a_refund_gives_a_receipt_and_leaves_two_lines_in_the_ledger(
    agent: LoadedAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = tmp_path / "ledger"
    monkeypatch.setenv("CUSTOMER_SERVICE_LEDGER", str(ledger))
    refund = agent.tools["issue_refund"]
    first, again = [await run_tool(refund, {"orderId": "A-1001"}, a_context(), 30) for _ in range(2)]
    assert json.loads(first.content)["refunded"] == "$42.00"
    assert first == again  # one call, one receipt
    assert ledger.read_text() == "begin issue_refund A-1001 42.00\nend issue_refund A-1001 42.00\n" * 2


@pytest.mark.parametrize("args", [{"orderId": "A-9999"}, {"orderId": "A-1001", "amount": 42.01}])
async def test_a_refund_that_cannot_be_is_an_error_without_an_effect(
    agent: LoadedAgent, args: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUSTOMER_SERVICE_LEDGER", str(tmp_path / "ledger"))
    outcome = await run_tool(agent.tools["issue_refund"], args, a_context(), 30)
    assert outcome.status == "error"
    assert not (tmp_path / "ledger").exists()


CONVERSATIONS = [
    (
        "order A-1001 arrived broken, can you refund it?",
        [["lookup_order", "get_shipment_details"], ["issue_refund"], []],
        "Refunded $42.00 to your original payment method.",
    ),
    ("where is my order A-1002?", [["get_shipment_details"], []], "That is all the carrier knows about order A-1002"),
    ("please refund order A-1002", [["lookup_order", "get_shipment_details"], []], "Order A-1002 is still on its way."),
    ("e-mail me order A-1002", [["lookup_order"], ["send_email"], []], "I have sent the summary of order A-1002"),
    ("I want to return something", [["ask_user"], []], "Thank you."),
    ("hello", [[]], "Hello!"),
]


@pytest.mark.parametrize(("message", "calls", "answer"), CONVERSATIONS)
async def test_the_script_makes_only_calls_that_its_tools_accept(
    agent: LoadedAgent, message: str, calls: list[list[str]], answer: str
) -> None:
    model = agent.model(Settings())
    schemas = [ToolSchema(one.name, one.description, one.input_schema) for one in agent.tools.values()]
    messages: list[Message] = [{"role": "user", "content": [{"type": "text", "text": message}]}]
    made: list[list[str]] = []
    for _ in calls:
        said = await model.answer(ModelRequest(agent.system_prompt, messages, schemas, agent.max_tokens))
        uses = [block for block in said.blocks if block["type"] == "tool_use"]
        made.append([use["name"] for use in uses])
        assert [agent.tools[use["name"]].problem_with(use["input"]) for use in uses] == [None] * len(uses)
        results = [{"type": "tool_result", "tool_use_id": use["id"], "content": "ok"} for use in uses]
        messages += [{"role": "assistant", "content": said.blocks}, {"role": "user", "content": results}]
    assert made == calls
    assert said.blocks[-1]["text"].startswith(answer)
