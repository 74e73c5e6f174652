"""`sessions` and `turns`: seen, cancelled, deleted."""

from __future__ import annotations

from tests.cli.shell import Shell


def test_a_session_shows_what_was_said_and_what_it_waits_for(shell: Shell) -> None:
    item = shell.park("--session", "jo")

    (listed,) = shell.run("sessions", "list", "--json").records
    assert (listed["sessionId"], listed["agent"], listed["state"]) == ("jo", "customer-service", "parked")
    (shown,) = shell.run("sessions", "show", "customer-service", "jo", "--json").records
    assert shown["item"]["id"] == item
    told = shell.run("sessions", "show", "customer-service", "jo").text
    assert "user: refund A-1001" in told
    assert f"approvals approve {item}" in told


def test_a_cancelled_turn_is_done_and_its_item_closed(shell: Shell) -> None:
    item = shell.park("--session", "jo")

    (cancelled,) = shell.run("sessions", "cancel", "customer-service", "jo", "--json").records

    assert cancelled["turnId"] == item.split(".")[0]
    assert shell.run("approvals", "approve", item).code == 1
    shown = shell.run("turns", "show", cancelled["turnId"], "--json").records[0]
    assert (shown["state"], shown["stopReason"]) == ("done", "cancelled")
    assert shell.run("turns", "follow", cancelled["turnId"]).code == 1
    assert shell.run("sessions", "cancel", "customer-service", "jo", "--json").records[0]["turnId"] is None


def test_a_deleted_session_is_gone(shell: Shell) -> None:
    shell.park("--session", "jo")

    assert shell.run("sessions", "delete", "customer-service", "jo", "--json").types == ["session:deleted"]

    assert shell.run("sessions", "list", "--json").out == b""
    assert shell.run("approvals", "list", "--json").out == b""
    assert shell.run("sessions", "show", "customer-service", "jo").code == 2
