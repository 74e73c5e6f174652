"""`serve`, `worker` and `dev` as real processes, driven over HTTP, killed and started again."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any

import httpx2

from tests.cli.shell import PRODUCT, Shell
from tests.processes import Process, eventually, is_alive, running

REFUNDED = "Refunded $42.00 to your original payment method."
QUICKLY = {"LOOPENGINE_LEASE_SECONDS": "1"}


def _url(process: Process) -> str:
    return process.wait_for_output("listening on ").rpartition(" ")[2]


def _post(url: str, body: dict[str, Any] | None = None) -> httpx2.Response:
    return httpx2.post(url, json=body or {}, timeout=60.0)


def test_one_command_serves_and_what_it_parked_is_approved_after_kill_9_of_everything(
    lone_shell: Shell, tmp_path: Path
) -> None:
    command = [*PRODUCT, "serve", "--port", "0"]
    with running(command, tmp_path / "first.log", cwd=lone_shell.folder) as first:
        parked = _post(f"{_url(first)}/agents/customer-service/messages", {"message": "refund A-1001"})
        assert parked.status_code == 202
        families = [first.pid, *_children_of(first.pid)]
        assert len(families) >= 3  # the API, the store, the worker
        for pid in families:
            os.kill(pid, signal.SIGKILL)
        first.wait()
        eventually(lambda: not any(map(is_alive, families)))

    with running(command, tmp_path / "second.log", cwd=lone_shell.folder, env=QUICKLY) as second:
        done = _post(f"{_url(second)}{parked.json()['approveUrl']}")
        second.signal(signal.SIGTERM)
        assert second.wait(40) == 0

    assert done.status_code == 200
    assert done.json()["text"] == REFUNDED
    types = [event["type"] for event in done.json()["events"]]
    assert (types[0], types[-1]) == ("session", "done")


def test_the_commands_of_a_folder_share_its_store_and_outlive_its_starter(lone_shell: Shell, tmp_path: Path) -> None:
    with running([*PRODUCT, "serve", "--port", "0"], tmp_path / "serve.log", cwd=lone_shell.folder) as serving:
        _url(serving)
        with running([*PRODUCT, "worker"], tmp_path / "worker.log", cwd=lone_shell.folder) as worker:
            worker.wait_for_output("worker started")
            serving.signal(signal.SIGTERM)
            assert serving.wait(40) == 0

            assert lone_shell.run("run", "customer-service", "where is A-1002?").code == 0

            worker.signal(signal.SIGTERM)
            assert worker.wait(40) == 0, worker.output


def test_a_supervised_worker_process_that_is_killed_is_replaced_and_its_turn_goes_on(
    shell: Shell, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    env = {**shell.env, "CUSTOMER_SERVICE_LEDGER": str(ledger), "CUSTOMER_SERVICE_DELAY_SECONDS": "2"}
    with running([*PRODUCT, "worker", "--processes", "2"], tmp_path / "w.log", cwd=shell.folder, env=env) as workers:
        eventually(lambda: len(_started(workers)) == 2)
        command = [*PRODUCT, "run", "customer-service", "--json", "where is A-1002?"]
        with running(command, tmp_path / "run.log", cwd=shell.folder, env=shell.env) as run:
            eventually(lambda: ledger.exists())
            for pid in _children_of(workers.pid):
                os.kill(pid, signal.SIGKILL)

            assert run.wait(40) == 0
            assert '"turn:resumed"' in run.output
        workers.signal(signal.SIGTERM)
        assert workers.wait(40) == 0, workers.output


def test_dev_restarts_api_and_worker_when_an_agents_python_changes(lone_shell: Shell, tmp_path: Path) -> None:
    with running([*PRODUCT, "dev", "--port", "0"], tmp_path / "dev.log", cwd=lone_shell.folder) as dev:
        _url(dev)
        eventually(lambda: len(_started(dev)) == 1)
        script = lone_shell.folder / "agents" / "customer-service" / "tools" / "refunds.py"

        def changed() -> bool:
            # Repeated, because nothing tells when the watch has begun.
            script.write_text(script.read_text().replace('"refunded": f"', '"refunded": f"US') + "# changed\n")
            return "restarting" in dev.output

        eventually(changed)
        eventually(lambda: len(_started(dev)) >= 2 and dev.output.count("listening on ") >= 2, 40)
        shown = lone_shell.run("run", "customer-service", "--env", "staging", "refund A-1001")
        assert "US$42.00" in shown.err
        dev.signal(signal.SIGTERM)
        assert dev.wait(40) == 0


def test_the_api_is_not_served_to_others_by_mistake(shell: Shell) -> None:
    refused = shell.run("serve", "--host", "0.0.0.0", "--port", "0")

    assert refused.code == 1
    assert "LOOPENGINE_HOST" in refused.err


def _started(process: Process) -> list[str]:
    return re.findall(r"worker started", process.output)


def _children_of(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task")
    return [int(child) for task in children.iterdir() for child in (task / "children").read_text().split()]
