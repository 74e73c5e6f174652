"""`run`: what goes where, exit codes, and that the turn outlives the command."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
import redis

from tests.cli.shell import PRODUCT, Shell
from tests.processes import eventually, running

REFUND = "order A-1001 arrived broken, can you refund it?"
REFUNDED = "Refunded $42.00 to your original payment method."


def test_a_turn_parks_with_exit_code_3_and_another_shell_approves_it_after_everything_has_ended(
    lone_shell: Shell,
) -> None:
    parked = lone_shell.run("run", "customer-service", "--json", REFUND)

    assert parked.code == 3
    assert (parked.types[0], parked.types[-1]) == ("session", "approval:pending")
    item = parked.records[-1]["id"]
    assert f"loopengine approvals approve {item}" in parked.err

    approved = lone_shell.run("approvals", "approve", item, "--json")

    assert approved.code == 0, approved.err
    assert approved.types[-1] == "done"
    assert approved.records[-1] == {"type": "done", "text": REFUNDED}
    assert "session" not in approved.types  # only what came after the decision
    assert lone_shell.run("approvals", "list", "--json").out == b""


def test_the_answer_is_on_stdout_and_what_happens_on_stderr(shell: Shell) -> None:
    told = shell.run("run", "customer-service", "where is my parcel A-1002?")

    assert told.code == 0
    assert (
        told.text
        == "That is all the carrier knows about order A-1002 right now. Tell me if it does not arrive in time.\n"
    )
    assert "get_shipment_details" in told.err
    assert "session  s_" in told.err  # what --session takes to go on


def test_what_was_wrong_with_a_call_that_could_not_run_is_told(shell: Shell) -> None:
    script = shell.folder / "agents" / "customer-service" / "script.yml"
    script.write_text("conversations: [{steps: [{calls: [{tool: lookup_order, args: {id: A-1}}]}, {text: Sorry.}]}]\n")

    told = shell.run("run", "customer-service", "hello")

    assert told.text == "Sorry.\n"
    (line,) = [line for line in told.err.splitlines() if line.startswith("tool     1.0 lookup_order: Error.")]
    assert "'orderId' is missing" in line


def test_scope_options_choose_the_rules(shell: Shell) -> None:
    assert shell.run("run", "customer-service", "--env", "staging", "refund A-1001").text == f"{REFUNDED}\n"
    assert shell.run("run", "customer-service", "--tenant", "acme-corp", "refund A-1001").text == f"{REFUNDED}\n"


def test_the_way_to_decide_that_is_shown_works_for_another_tenant_too(shell: Shell) -> None:
    parked = shell.run("run", "customer-service", "--tenant", "bolt & co", "refund A-1001")
    command = next(line for line in parked.err.splitlines() if line.startswith("approve: loopengine "))

    approved = shell.sh(command.replace("approve: loopengine", "$LOOPENGINE"))

    assert (approved.code, approved.text) == (0, f"{REFUNDED}\n")


def test_a_message_is_words_or_an_option(shell: Shell) -> None:
    assert shell.run("run", "customer-service", "where", "is", "A-1002?").code == 0
    assert shell.run("run", "customer-service", "--input", "where is A-1002?").code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "customer-service"], "one message"),
        (["run", "customer-service", "a", "--input", "b"], "one message"),
        (["run", "customer-service", " "], "must not be empty"),
        (["run"], "AGENT"),
        (["run", "nobody", "hi"], "customer-service"),
        (["run", "customer-service", "--session", "a\nb", "hi"], "sessionId"),
        (["run", "customer-service", "hi", "--tenant", " "], "must not be blank"),
        (["approvals", "approve", "t_none.1.0.1"], "t_none.1.0.1"),
        (["sessions", "show", "customer-service", "none"], "none"),
        (["nonsense"], "nonsense"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(shell: Shell, arguments: list[str], says: str) -> None:
    wrong = shell.run(*arguments)

    assert wrong.code == 2
    assert says in wrong.err
    assert wrong.err.count("\n") == 1
    assert wrong.out == b""


def test_a_missing_model_key_is_named_before_anything_is_written(shell: Shell, redis_url: str) -> None:
    refused = shell.run("run", "customer-service", "hi", env={"LOOPENGINE_PROVIDER": "anthropic"})

    assert refused.code == 1
    assert "ANTHROPIC_API_KEY" in refused.err
    with redis.Redis.from_url(redis_url) as client:
        assert not [key for key in client.scan_iter() if b":t:" in key or b":s:" in key]


def test_keys_in_the_env_file_reach_the_sdks_and_the_environment_wins(shell: Shell) -> None:
    (shell.folder / ".env").write_text("LOOPENGINE_PROVIDER=anthropic\nANTHROPIC_API_KEY=sk-from-file\n")

    assert shell.run("check", "customer-service").code == 0
    assert shell.run("check", "customer-service", env={"ANTHROPIC_API_KEY": ""}).code == 1


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({"REDIS_URL": "redis://me:secret@127.0.0.1:1/0"}, "redis://me:***@127.0.0.1:1/0"),
        ({"REDIS_URL": "http://127.0.0.1"}, "REDIS_URL"),
        ({"LOOPENGINE_PORT": "many"}, "LOOPENGINE_PORT"),
        ({"LOOPENGINE_LOG_LEVEL": "loud"}, "LOOPENGINE_LOG_LEVEL"),
    ],
)
def test_what_an_operator_has_to_mend_is_named_in_one_line(shell: Shell, env: dict[str, str], says: str) -> None:
    failed = shell.run("run", "customer-service", "--json", "hi", env=env)

    assert failed.code == 1
    assert says in failed.err
    assert "secret" not in failed.err
    assert failed.err.count("\n") == 1
    assert failed.out == b""


def test_a_denied_turn_ends_with_exit_code_4(shell: Shell) -> None:
    denied = shell.run("approvals", "deny", shell.park(), "--reason", "not returned", "--json")

    assert denied.code == 4
    assert denied.records[-1]["stopReason"] == "denied"


def test_a_turn_without_an_answer_ends_with_exit_code_4_and_a_failed_one_with_1(shell: Shell) -> None:
    agent = shell.folder / "agents" / "customer-service"
    text = (agent / "agent.yml").read_text()
    (agent / "agent.yml").write_text(text.replace("maxTurns: 12", "maxTurns: 1"))
    (agent / "script.yml").write_text(
        'conversations: [{match: "loop", steps: [{calls: [{tool: lookup_order, args: {orderId: A-1001}}]}]}]'
    )

    assert shell.run("run", "customer-service", "loop", "--json").records[-1]["stopReason"] == "max_turns"
    assert shell.run("run", "customer-service", "loop").code == 4
    failed = shell.run("run", "customer-service", "something else", "--json")
    assert (failed.code, failed.records[-1]["stopReason"]) == (1, "error")


def test_a_message_behind_a_parked_turn_is_kept_and_says_what_it_waits_for(shell: Shell) -> None:
    item = shell.park("--session", "jo")

    waiting = shell.run("run", "customer-service", "--session", "jo", "--json", "where is A-1002?")

    assert waiting.code == 3
    assert waiting.types == ["session"]
    assert f"approvals approve {item}" in waiting.err
    assert shell.run("approvals", "approve", item).code == 0
    followed = shell.run("turns", "follow", waiting.records[0]["turnId"], "--json")
    assert (followed.code, followed.types[0], followed.types[-1]) == (0, "session", "done")


def test_ctrl_c_leaves_the_turn_and_says_how_to_find_it(shell: Shell, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    env = {**shell.env, "CUSTOMER_SERVICE_LEDGER": str(ledger), "CUSTOMER_SERVICE_DELAY_SECONDS": "1"}
    command = [*PRODUCT, "run", "customer-service", "--env", "staging", "refund A-1001"]

    with running(command, tmp_path / "log", cwd=shell.folder, env=env) as process:
        eventually(lambda: ledger.exists() and "begin issue_refund" in ledger.read_text())
        process.signal(signal.SIGINT)
        assert process.wait() == 130
        shown = next(line for line in process.output.splitlines() if line.startswith("follow: "))

    followed = shell.sh(shown.replace("follow: loopengine", "$LOOPENGINE"))
    assert (followed.code, followed.text) == (0, f"{REFUNDED}\n")
    assert ledger.read_text().count("begin issue_refund") == 1


def test_a_turn_whose_command_was_killed_goes_on_with_whoever_follows_it(shell: Shell, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    env = {**shell.env, "CUSTOMER_SERVICE_LEDGER": str(ledger), "CUSTOMER_SERVICE_DELAY_SECONDS": "20"}
    command = [*PRODUCT, "run", "customer-service", "--json", "where is A-1002?"]
    with running(command, tmp_path / "log", cwd=shell.folder, env=env) as process:
        turn = json.loads(process.wait_for_output('"session"'))["turnId"]
        eventually(lambda: ledger.exists())
        process.signal(signal.SIGKILL)
        process.wait()

    followed = shell.run("turns", "follow", turn, "--json", env={"LOOPENGINE_LEASE_SECONDS": "1"})

    assert (followed.code, followed.types[-1]) == (0, "done")
    assert "turn:resumed" in followed.types


def test_with_a_worker_elsewhere_the_command_runs_no_turns_itself(shell: Shell, redis_url: str, tmp_path: Path) -> None:
    with running([*PRODUCT, "worker"], tmp_path / "worker.log", cwd=shell.folder, env=shell.env) as worker:
        worker.wait_for_output("worker started")
        env = {"LOOPENGINE_LOG_LEVEL": "info"}

        told = shell.run("run", "customer-service", "where is A-1002?", env=env)

        assert told.code == 0
        assert "runs turns itself" not in told.err


def test_a_reader_that_leaves_early_does_not_stop_the_turn(shell: Shell) -> None:
    first = shell.sh(
        f"$LOOPENGINE run customer-service --session jo --env staging --json '{REFUND}' | head -n 1;"
        "exit ${PIPESTATUS[0]}"
    )

    assert first.types == ["session"]
    assert first.code == 0, first.err  # the command ran the turn itself, to its end
    shown = shell.run("sessions", "show", "customer-service", "jo", "--json").records[0]
    assert [turn["state"] for turn in shown["turns"]] == ["done"]
    assert shown["messages"][-1]["text"] == REFUNDED


def test_no_command_leaves_a_server_behind(lone_shell: Shell) -> None:
    lone_shell.run("run", "customer-service", "where is A-1002?")

    socket = lone_shell.folder / ".loopengine" / "valkey.sock"
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(socket) not in listed
