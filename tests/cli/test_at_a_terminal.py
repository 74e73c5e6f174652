"""At a terminal a person is asked, and what they type decides."""

from __future__ import annotations

import signal

from tests.cli.shell import Shell, Terminal

REFUNDED = "Refunded $42.00 to your original payment method."


def test_a_person_sees_the_call_and_approves_it(shell: Shell) -> None:
    with Terminal(shell, "run", "customer-service", "refund A-1001") as terminal:
        terminal.wait_for("issue_refund waits for approval")
        terminal.wait_for('orderId: "A-1001"')
        terminal.wait_for("[a]pprove, [d]eny or [l]ater?")
        terminal.type("what?\n")
        terminal.wait_for("Type a to let it run")
        terminal.wait_for("[a]pprove, [d]eny or [l]ater?")
        terminal.type("a\n")
        terminal.wait_for(REFUNDED)
        assert terminal.end() == 0


def test_a_person_denies_with_a_reason(shell: Shell) -> None:
    with Terminal(shell, "run", "customer-service", "--session", "jo", "refund A-1001") as terminal:
        terminal.wait_for("[l]ater?")
        terminal.type("d\n")
        terminal.wait_for("Reason")
        terminal.type("not returned yet\n")
        assert terminal.end() == 4
    (session,) = shell.run("sessions", "show", "customer-service", "jo", "--json").records
    assert "not returned yet" in str(session["messages"])


def test_later_leaves_the_item_open_and_so_does_the_end_of_input(shell: Shell) -> None:
    for typed in ("l\n", "\x04"):
        with Terminal(shell, "run", "customer-service", "refund A-1001") as terminal:
            terminal.wait_for("[l]ater?")
            terminal.type(typed)
            terminal.wait_for("loopengine approvals approve")
            assert terminal.end() == 3
    assert len(shell.run("approvals", "list", "--json").records) == 2


def test_ctrl_c_at_the_question_decides_nothing(shell: Shell) -> None:
    with Terminal(shell, "run", "customer-service", "refund A-1001") as terminal:
        terminal.wait_for("[l]ater?")
        terminal.signal(signal.SIGINT)
        terminal.wait_for("loopengine turns follow")
        assert terminal.end() == 130
    assert len(shell.run("approvals", "list", "--json").records) == 1


def test_an_option_is_chosen_by_its_number_and_anything_else_is_the_answer(shell: Shell) -> None:
    for typed, result in (("2\n", "A-1002"), ("the blue one\n", "the blue one")):
        session = f"asks for {result}"
        with Terminal(shell, "run", "customer-service", "--session", session, "I want to return it") as terminal:
            terminal.wait_for("Which order is it about?")
            terminal.wait_for("2. A-1002")
            terminal.wait_for("Number or text")
            terminal.type(typed)
            terminal.wait_for("You will find a return label")
            assert terminal.end() == 0
        (shown,) = shell.run("sessions", "show", "customer-service", session, "--json").records
        (call,) = [call for message in shown["messages"] for call in message.get("calls", [])]
        assert call["result"] == result


def test_a_decision_made_elsewhere_meanwhile_wins(shell: Shell) -> None:
    with Terminal(shell, "run", "customer-service", "refund A-1001") as terminal:
        terminal.wait_for("[l]ater?")
        (item,) = shell.run("approvals", "list", "--json").records
        assert shell.run("approvals", "deny", item["id"]).code == 4

        terminal.type("a\n")

        terminal.wait_for("already decided")
        assert terminal.end() == 4
