"""The supervisor with real children: deaths are known at once, signals are passed on, nobody is left behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import Process, eventually, is_alive, kill, running_python

SUPERVISOR = """
import sys
from pathlib import Path
from engine.settings import Settings
from protocol.errors import StoreUnavailable
from workers.supervisor import run_supervisor
def release(name):
    print("released", name, flush=True)
    if "unreleasable" in sys.argv:
        raise StoreUnavailable("away")
command = [sys.executable, "-c", Path(sys.argv[1]).read_text(), sys.argv[2]]
sys.exit(run_supervisor(Settings(), 2, command, release))
"""

CHILD = """
import os, signal, sys, time
folder, name = sys.argv[1], sys.argv[3]
def on_term(*_):
    if os.path.exists(os.path.join(folder, "deaf")):
        open(os.path.join(folder, "told"), "a").write(name + "\\n")
        return
    sys.exit(0)
signal.signal(signal.SIGTERM, on_term)
if os.path.exists(os.path.join(folder, "broken")):
    open(os.path.join(folder, "deaths"), "a").write(name + "\\n")
    sys.exit(3)
os.rename(open(os.path.join(folder, name + ".new"), "w").name, os.path.join(folder, f"{os.getpid()}@{name}"))
while True:
    time.sleep(0.05)  # short: a signal that comes just before the sleep does not cut it
"""


class Children:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def living(self) -> dict[int, str]:
        entries = (path.name.partition("@") for path in self.folder.glob("*@*"))
        return {int(pid): name for pid, _, name in entries if is_alive(int(pid))}

    def lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().split() if path.exists() else []


@pytest.fixture
def children(tmp_path: Path) -> Children:
    (tmp_path / "children").mkdir()
    (tmp_path / "child.py").write_text(CHILD)
    return Children(tmp_path / "children")


@pytest.fixture
def supervisor(children: Children, tmp_path: Path) -> Iterator[Process]:
    with running_python(SUPERVISOR, tmp_path / "output", str(tmp_path / "child.py"), str(children.folder)) as process:
        eventually(lambda: len(children.living()) == 2)
        yield process
        if is_alive(process.pid):
            process.signal(signal.SIGKILL)
    eventually(lambda: not children.living())


def test_a_killed_child_is_released_by_its_name_and_replaced_under_a_new_one(
    supervisor: Process, children: Children
) -> None:
    (victim, name), (other, _) = children.living().items()
    kill(victim)
    supervisor.wait_for_output(f"released {name}")
    eventually(lambda: len(children.living()) == 2)
    assert other in children.living()
    assert name not in children.living().values()
    assert supervisor.output.count("released") == 1


def test_sigterm_is_passed_on_once_and_the_exit_is_clean(supervisor: Process, children: Children) -> None:
    supervisor.signal(signal.SIGTERM)
    assert supervisor.wait() == 0
    assert children.living() == {}
    assert "released" not in supervisor.output  # they handed their turns back themselves


def test_a_second_signal_kills_the_children_and_their_turns_are_released(
    supervisor: Process, children: Children
) -> None:
    (children.folder / "deaf").touch()
    names = set(children.living().values())
    supervisor.signal(signal.SIGTERM)
    eventually(lambda: set(children.lines("told")) == names)
    supervisor.signal(signal.SIGINT)
    assert supervisor.wait() == 1
    assert children.living() == {}
    assert {line.split()[1] for line in supervisor.output.splitlines() if line.startswith("released")} == names


def test_children_are_told_to_end_when_the_supervisor_is_killed(supervisor: Process, children: Children) -> None:
    supervisor.signal(signal.SIGKILL)
    supervisor.wait()
    eventually(lambda: children.living() == {})


def test_ctrl_c_in_a_terminal_reaches_children_only_through_the_supervisor(
    supervisor: Process, children: Children
) -> None:
    groups = {os.getpgid(pid) for pid in children.living()}
    assert os.getpgid(supervisor.pid) not in groups
    supervisor.signal(signal.SIGINT)
    assert supervisor.wait() == 0


def test_a_store_that_is_away_does_not_stop_the_supervisor(children: Children, tmp_path: Path) -> None:
    arguments = (str(tmp_path / "child.py"), str(children.folder), "unreleasable")
    with running_python(SUPERVISOR, tmp_path / "output", *arguments) as supervisor:
        eventually(lambda: len(children.living()) == 2)
        (victim, _), _ = children.living().items()
        kill(victim)
        supervisor.wait_for_output("wait for the sweep")
        eventually(lambda: len(children.living()) == 2)
        supervisor.signal(signal.SIGTERM)
        assert supervisor.wait() == 0


def test_children_that_cannot_start_are_tried_again_ever_more_slowly(children: Children, tmp_path: Path) -> None:
    (children.folder / "broken").touch()
    arguments = (str(tmp_path / "child.py"), str(children.folder))
    with running_python(SUPERVISOR, tmp_path / "output", *arguments) as supervisor:
        eventually(lambda: all(f"in_s={pause}" in supervisor.output for pause in ("0.0", "0.5", "1.0")))
        (children.folder / "broken").unlink()
        eventually(lambda: len(children.living()) == 2)
        supervisor.signal(signal.SIGTERM)
        assert supervisor.wait() == 0
