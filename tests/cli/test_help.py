"""Help that a stranger can act on, at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from loopengine.cli.entry import cli
from tests.cli.shell import Shell


def _commands(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(command, click.Group):
        return [path]
    context = click.Context(command)
    children = [(name, command.get_command(context, name)) for name in command.list_commands(context)]
    return [path, *(deeper for name, child in children if child for deeper in _commands(child, (*path, name)))]


@pytest.mark.parametrize("path", _commands(cli), ids=" ".join)
def test_every_command_explains_itself_with_an_example(path: tuple[str, ...]) -> None:
    command: click.Command | None = cli
    for name in path:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), name)
    assert command is not None
    with click.Context(command, info_name="loopengine") as context:
        text = command.get_help(context)

    assert "  loopengine " in text
    assert all(option.help for option in command.params if isinstance(option, click.Option)), (
        "an option without explanation"
    )


def test_help_costs_next_to_nothing(tmp_path: Path) -> None:
    program = """
import sys
from loopengine.cli.entry import run
try:
    run(["--help"])
finally:
    heavy = {"redis", "pydantic", "structlog", "anthropic", "openai", "fastapi", "rich", "yaml", "asyncio"}
    print(sorted(heavy & set(sys.modules)), file=sys.stderr)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=Shell(tmp_path).folder)

    assert ended.stderr.strip() == "[]"
    assert "loopengine run customer-service" in ended.stdout
