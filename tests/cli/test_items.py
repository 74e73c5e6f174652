"""`approvals` and `questions`: listed, shown, decided once."""

from __future__ import annotations

from tests.cli.shell import Shell


def test_open_approvals_are_listed_and_shown_with_how_to_decide(shell: Shell) -> None:
    item = shell.park()

    (listed,) = shell.run("approvals", "list", "--json").records
    assert (listed["type"], listed["id"], listed["tool"]) == ("approval:pending", item, "issue_refund")
    assert shell.run("approvals", "show", item, "--json").records == [listed]
    shown = shell.run("approvals", "show", item).text
    assert "A-1001" in shown
    assert f"loopengine approvals deny {item}" in shown
    assert shell.run("approvals", "list", "--tenant", "other", "--json").out == b""


def test_a_decision_repeated_shows_the_same_again_and_a_contradiction_fails(shell: Shell) -> None:
    item = shell.park()
    first = shell.run("approvals", "approve", item, "--json")

    repeated = shell.run("approvals", "approve", item, "--json")
    contradicted = shell.run("approvals", "deny", item)

    assert (repeated.code, repeated.out) == (0, first.out)
    assert contradicted.code == 1
    assert "already decided: approve by" in contradicted.err


def test_an_approval_of_other_arguments_than_those_shown_is_refused(shell: Shell) -> None:
    item = shell.park()

    assert shell.run("approvals", "approve", item, "--digest", "0" * 32).code == 1
    (open_item,) = shell.run("approvals", "list", "--json").records
    assert shell.run("approvals", "approve", item, "--digest", open_item["digest"]).code == 0


def test_another_tenant_cannot_decide(shell: Shell) -> None:
    item = shell.park()

    assert shell.run("approvals", "approve", item, "--tenant", "other").code == 2
    assert len(shell.run("approvals", "list", "--json").records) == 1


def test_a_question_is_answered_from_another_shell(shell: Shell) -> None:
    asked = shell.run("run", "customer-service", "--json", "I want to return something")
    assert asked.code == 3
    item = asked.records[-1]["id"]
    assert f"loopengine questions answer {item}" in asked.err
    assert [record["id"] for record in shell.run("questions", "list", "--json").records] == [item]

    assert shell.run("questions", "answer", item, " ").code == 2
    assert shell.run("approvals", "approve", item).code == 2
    answered = shell.run("questions", "answer", item, "A-1001", "--json")

    assert (answered.code, answered.types[-1]) == (0, "done")
    assert shell.run("questions", "answer", item, "A-1002").code == 1
