"""The entry: which command there are, and what becomes of an exception. Nothing here knows what a command does."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import click

from loopengine.cli import exits
from loopengine.cli.streams import say, take_stdout
from protocol.errors import LoopEngineError

COMMANDS = ("run", "approvals", "questions", "sessions", "turns", "check", "serve", "worker", "dev")

_HELP = """Run tool-using AI agents as durable turns.

An agent is a folder under ./agents. A turn survives whatever is killed, and waits for people without costing
anything. Without REDIS_URL the turns live in ./.loopengine, in a Valkey server that the commands start themselves.

\b
  loopengine run customer-service "order A-1001 arrived broken, can you refund it?"
  loopengine approvals list
  loopengine serve

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 waiting for a person, 4 denied or out of turns."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"loopengine.cli.commands.{cmd_name}").command
        return command


class ProductCommand(click.Command):
    """A command whose body has stdout to itself; it is in ``ctx.obj``."""

    def invoke(self, ctx: click.Context) -> Any:
        ctx.obj = take_stdout()
        return super().invoke(ctx)


class ProductGroup(click.Group):
    command_class = ProductCommand


def _show_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        click.echo(f"loopengine {version('loopengine')}")
        ctx.exit()


@click.command(cls=_Commands, help=_HELP, context_settings={"max_content_width": 110})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_show_version, help="Show it.")
def cli() -> None:
    pass


def main() -> None:
    """Run the command of ``sys.argv`` and exit with its code."""
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except (OSError, AttributeError, ValueError) as problem:
        code = _lost_output(problem)
    sys.exit(code)


def run(args: list[str]) -> int:
    """The exit code. Every exception ends here, as one line on stderr."""
    try:
        code: int | None = cli.main(args, prog_name="loopengine", standalone_mode=False)
        return code or exits.DONE
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return exits.USAGE
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "loopengine"
        say(f"{path}: {_one_line(error.format_message())} Try '{path} --help'.")
        return exits.USAGE
    except click.ClickException as error:
        say(f"loopengine: {_one_line(error.format_message())}")
        return exits.FAILED
    except (KeyboardInterrupt, click.Abort):
        return exits.of_signal(2)
    except LoopEngineError as error:
        say(f"loopengine: {_one_line(str(error))}")
        return exits.of_error(error)
    except OSError as problem:
        return _lost_output(problem)
    except Exception as error:
        if os.environ.get("LOOPENGINE_LOG_LEVEL", "").lower() == "debug":
            raise
        kind = type(error).__name__
        say(
            f"loopengine: a fault of LoopEngine itself ({kind}: {_one_line(str(error))}); "
            "LOOPENGINE_LOG_LEVEL=debug shows where"
        )
        return exits.FAILED


def _lost_output(problem: Exception) -> int:
    if isinstance(problem, BrokenPipeError | AttributeError | ValueError):
        quiet = exits.CLOSED_PIPE
    else:
        say(f"loopengine: {_one_line(str(problem))}")
        quiet = exits.FAILED
    # The interpreter flushes stdout once more on its way out and would complain about the same thing again.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    return quiet


def _one_line(text: str) -> str:
    return " ".join(text.split())
