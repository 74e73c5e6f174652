"""``loopengine dev``: everything for one developer, restarted when code changes."""

from __future__ import annotations

import click

from loopengine.cli.entry import ProductCommand
from loopengine.cli.options import Where, redis_url_option
from loopengine.cli.streams import Output

_HELP = """Serve the API and run turns, and restart both when Python under the agents' folder changes.

Changes of agent.yml and actauth.yml need no restart. Turns that run during one go on after it.

\b
Example:
  loopengine dev --port 9000"""


@click.command(cls=ProductCommand, help=_HELP)
@click.option("--host", metavar="ADDRESS", help="Where to listen.  [default: LOOPENGINE_HOST, else 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="0: any free one.  [default: LOOPENGINE_PORT, else 8787]")
@redis_url_option
@click.pass_obj
def command(_output: Output, host: str | None, port: int | None, redis_url: str | None) -> int:
    from loopengine.cli.developing import develop

    return develop(host, port, Where(redis_url))
