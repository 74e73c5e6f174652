"""``loopengine worker``: processes that run turns."""

from __future__ import annotations

import click

from loopengine.cli.entry import ProductCommand
from loopengine.cli.options import Where, redis_url_option
from loopengine.cli.streams import Output

_HELP = """Run turns until told to stop. Start as many as you like, on as many machines.

SIGTERM or Ctrl-C hands running turns back at their next step and ends; a second one ends at once. Either way, and
after kill -9 too, other workers go on with the turns.

\b
Examples:
  loopengine worker
  loopengine worker --processes 4 --concurrency 200 --redis-url redis://redis:6379/0"""


@click.command(cls=ProductCommand, help=_HELP)
@click.option("--processes", type=click.IntRange(min=1), help="Processes.  [default: LOOPENGINE_PROCESSES, else 1]")
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    help="Turns that each runs at once.  [default: LOOPENGINE_CONCURRENCY, else 100]",
)
@click.option("--name", metavar="NAME", help="Shown by RQ's tools; must not have been used before.  [default: made up]")
@redis_url_option
@click.pass_obj
def command(
    _output: Output, processes: int | None, concurrency: int | None, name: str | None, redis_url: str | None
) -> int:
    from loopengine.cli.working import work

    return work(processes, concurrency, name, Where(redis_url))
