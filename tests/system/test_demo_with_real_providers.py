"""The demo conversation over the providers' SDKs and wires, against a provider that is stricter than the real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.fake_provider import FakeProvider
from tests.fake_provider.script import Entry, calls, text

MESSAGE = "order A-1001 arrived broken, can you refund it?"
REFUNDED = "Refunded $42.00 to your original payment method."
SCRIPT: list[Entry] = [
    calls(
        ("toolu_order", "lookup_order", {"orderId": "A-1001"}),
        ("toolu_shipment", "get_shipment_details", {"orderId": "A-1001"}),
        say="Let me look at order A-1001.",
    ),
    calls(("toolu_refund", "issue_refund", {"orderId": "A-1001", "amount": 42.0, "reason": "arrived broken"})),
    text(REFUNDED),
]


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_the_demo_conversation_with_approval_runs_over_a_providers_wire(
    provider: str, project: Path, redis_url: str
) -> None:
    with FakeProvider(SCRIPT) as fake:
        shell = Shell(
            project,
            {
                "REDIS_URL": redis_url,
                "LOOPENGINE_PROVIDER": provider,
                "LOOPENGINE_MODEL": "some-model",
                "ANTHROPIC_API_KEY": "key",
                "ANTHROPIC_BASE_URL": fake.anthropic_url,
                "OPENAI_API_KEY": "key",
                "OPENAI_BASE_URL": fake.openai_url,
            },
        )

        parked = shell.run("run", "customer-service", "--json", MESSAGE)
        item = parked.records[-1]
        approved = shell.run("approvals", "approve", "--json", item["id"])

    assert (parked.code, item["type"], item["tool"]) == (3, "approval:pending", "issue_refund")
    assert parked.types.count("tool:result") == 2
    assert approved.code == 0
    assert approved.types == [
        "actauth:decision",
        "tool:started",
        "toollane:result",
        "tool:result",
        "budget:check",
        "loop:done",
        "done",
    ]
    assert approved.records[-1]["text"] == REFUNDED
    assert fake.refusals == []
    assert len(fake.requests) == 3
    assert all(request["stream"] is True for request in fake.requests)
