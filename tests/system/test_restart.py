"""Everything is killed while a turn waits for a person, and started again: the approval still counts.

Driven by curl as in the documentation, against ``loopengine serve`` with the store that it brings (appendfsync always).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import httpx2

from tests.cases.client import types_of
from tests.event_schema import problem_with
from tests.processes import Process, eventually, is_alive, running_product

MESSAGE = "order A-1001 arrived broken, can you refund it?"


def serving(project: Path) -> AbstractContextManager[Process]:
    env = {"CUSTOMER_SERVICE_LEDGER": str(project / "ledger.txt")}
    return running_product(["serve", "--port", "0"], project / "serve.log", cwd=project, env=env)


def url_of(server: Process) -> str:
    return server.wait_for_output("listening on ").rpartition("listening on ")[2].strip()


def curl(url: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
    """Status and body; a POST if there is a body. Where curl is not installed, the same request without it."""
    data = [] if body is None else ["-H", "content-type: application/json", "-d", json.dumps(body)]
    if shutil.which("curl") is None:
        answer = httpx2.request("GET" if body is None else "POST", url, json=body, timeout=60, trust_env=False)
        return answer.status_code, answer.json()
    command = [
        "curl",
        "--silent",
        "--show-error",
        "--noproxy",
        "*",
        "--max-time",
        "60",
        "-w",
        "\\n%{http_code}",
        *data,
        url,
    ]
    text, _, status = subprocess.run(command, capture_output=True, text=True, check=True).stdout.rpartition("\n")
    return int(status), json.loads(text)


def children_of(pid: int) -> list[int]:
    """With their children, and so on."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for parent in found:
        found += [child for child, of in parents.items() if of == parent]
    return found[1:]


def kill_everything(server: Process, store_folder: Path) -> None:
    """kill -9 of the server, its worker and its store, in a way that lets none of them say a last word."""
    server.signal(signal.SIGSTOP)  # or it would revive what is killed before it
    pids = children_of(server.pid)
    assert json.loads((store_folder / "server.json").read_text())["pid"] in pids
    assert len(pids) == 2  # the store and the worker
    for pid in (*pids, server.pid):
        os.kill(pid, signal.SIGKILL)
    assert server.wait() == -signal.SIGKILL
    eventually(lambda: not any(map(is_alive, pids)))


def test_a_turn_is_approved_after_everything_was_killed_and_started_again(project: Path) -> None:
    with serving(project) as server:
        url = url_of(server)
        eventually(lambda: curl(f"{url}/readyz")[1]["workersAlive"])
        status, parked = curl(f"{url}/agents/customer-service/messages", {"message": MESSAGE})
        assert (status, parked["type"], parked["tool"]) == (202, "approval", "issue_refund")
        assert parked["approveUrl"].startswith("/approvals/")
        shown = parked["events"]
        kill_everything(server, project / ".loopengine")

    (project / "serve.log").unlink()
    with serving(project) as server:
        url = url_of(server)
        eventually(lambda: curl(f"{url}/readyz")[1]["workersAlive"])
        _, listed = curl(f"{url}/approvals")
        assert [item["id"] for item in listed["approvals"]] == [parked["id"]]
        status, done = curl(f"{url}{parked['approveUrl']}", {"digest": parked["digest"]})

        assert (status, done["text"]) == (200, "Refunded $42.00 to your original payment method.")
        # The whole turn, from `session` to `done`, beginning with exactly what was there before.
        events = done["events"]
        types = types_of(events)
        assert (types[0], types[-1], types.count("session"), types.count("done")) == ("session", "done", 1, 1)
        assert events[: len(shown)] == shown
        assert [problem for event in events if (problem := problem_with(json.dumps(event)))] == []
        # A parked turn has no worker to lose.
        assert "turn:resumed" not in types
        assert (done["decision"]["what"], done["sessionId"]) == ("approve", parked["sessionId"])
        # What was finished before did not run again, and the refund ran once.
        lines = (project / "ledger.txt").read_text().splitlines()
        assert sorted(line.rpartition(" ")[0] if "refund" in line else line for line in lines) == [
            "begin get_shipment_details A-1001",
            "begin issue_refund A-1001",
            "begin lookup_order A-1001",
            "end get_shipment_details A-1001",
            "end issue_refund A-1001",
            "end lookup_order A-1001",
        ]
        # The store ends with its server.
        server.signal(signal.SIGTERM)
        assert server.wait(40) == 0
        assert not is_alive(json.loads((project / ".loopengine" / "server.json").read_text())["pid"])
