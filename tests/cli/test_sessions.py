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


def test_a_session_shows_the_answer_that_a_person_gave(shell: Shell) -> None:
    asked = shell.run("run", "customer-service", "--session", "jo", "--json", "I want to return it")
    assert shell.run("questions", "answer", asked.records[-1]["id"], "the blue one").code == 0

    assert "ask_user" in (told := shell.run("sessions", "show", "customer-service", "jo").text)
    assert ": ok, the blue one\n" in told


def test_a_turn_that_waits_for_a_worker_says_how_to_go_on(shell: Shell) -> None:
    item = shell.park("--session", "jo")
    assert shell.run("run", "customer-service", "--session", "jo", "where is A-1002?").code == 3
    assert shell.run("approvals", "approve", item).code == 0

    shown = shell.run("sessions", "show", "customer-service", "jo").text
    follow = next(line for line in shown.splitlines() if line.startswith("follow: loopengine turns follow t_"))

    assert shell.run(*follow.split()[2:]).text.startswith("That is all the carrier knows")


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
