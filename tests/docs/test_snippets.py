"""What the documentation tells people to type works: each page's `sh` blocks are run in order in a new project."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from engine.agents.agent_file import read_agent_file
from engine.settings import Settings
from engine.tools.tool import Tool
from protocol.errors import ConfigurationError

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/agents.md", "docs/http.md", "docs/operations.md")
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LONGEST_S = 120


def blocks(page: str, language: str) -> list[str]:
    return [code for found, code in _BLOCK.findall((ROOT / page).read_text()) if found == language]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def needed(command: str) -> None:
    if shutil.which(command) is None:
        if os.environ.get("CI"):
            pytest.fail(f"{command} is not installed; .ci/run installs it")
        pytest.skip(f"{command} is not installed")


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_work_in_their_order(page: str, project: Path, redis_url: str) -> None:
    for command in ("bash", "curl", "jq"):
        needed(command)
    port = str(free_port())
    script = "set -euo pipefail\n" + "".join(blocks(page, "sh")).replace("localhost:8787", f"localhost:{port}")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "LOOPENGINE_PORT": port,
    }
    if page == "docs/operations.md":  # the others begin, as their readers do, without a Redis
        environment["REDIS_URL"] = redis_url
    with subprocess.Popen(
        ["bash", "-c", script],
        cwd=project,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            # Servers that the page starts in the background hold the pipe open: the shell's own end is what counts.
            code = process.wait(_LONGEST_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        output = process.stdout.read() if process.stdout else ""
    assert code == 0, output


def test_the_readme_names_make_targets_that_exist() -> None:
    targets = set(re.findall(r"^    make (\w+)|`make (\w+)`", (ROOT / "README.md").read_text(), re.MULTILINE))
    names = {name for pair in targets for name in pair if name}

    assert {"demo", "test", "check", "bench"} <= names
    for name in names:
        subprocess.run(["make", "--dry-run", name], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def test_the_readmes_tools_are_tools() -> None:
    namespace: dict[str, object] = {}
    exec(blocks("README.md", "python")[0], namespace)  # the page's own code

    lookup, refund = namespace["lookup_order"], namespace["issue_refund"]
    assert isinstance(lookup, Tool)
    assert isinstance(refund, Tool)
    assert (lookup.kind, refund.kind) == ("read", "effect")


def test_every_setting_is_documented_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \| (.*?) \|", (ROOT / "docs/operations.md").read_text(), re.MULTILINE))

    described = {"REDIS_URL": "embedded", "LOOPENGINE_RQ_URL": "`REDIS_URL`"}
    expected = {}
    for field in Settings.model_fields.values():
        name = str(field.validation_alias)
        expected[name] = described.get(name, _shown(field.default))
    assert rows == expected


def test_every_word_of_agent_yml_is_documented(tmp_path: Path) -> None:
    path = tmp_path / "agent.yml"
    path.write_text("nothing_like_this: 1\n")
    with pytest.raises(ConfigurationError) as refused:
        read_agent_file(path)
    words = re.search(r"expected one of ([\w, ]+)", str(refused.value))

    page = (ROOT / "docs/agents.md").read_text().partition("## agent.yml")[2].partition("\n## ")[0]
    assert words is not None
    assert set(words[1].split(", ")) == set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))


def _shown(default: object) -> str:
    if default is None:
        return "-"
    if isinstance(default, int | float):
        return f"{default:g}" if isinstance(default, float) else str(default)
    return f"`{default}`"
