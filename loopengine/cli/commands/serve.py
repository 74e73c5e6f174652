"""``loopengine serve``: the HTTP API."""

from __future__ import annotations

import click

from loopengine.cli.entry import ProductCommand
from loopengine.cli.options import Where, redis_url_option
from loopengine.cli.streams import Output

_HELP = """Serve the HTTP API until told to stop.

Without REDIS_URL it also brings the store and a worker, so that one command is enough. With REDIS_URL it only serves:
start `loopengine worker` beside it, or ask for one with --worker. Nobody has to authenticate yet, so it listens on
loopback only.

\b
Examples:
  loopengine serve
  loopengine serve --port 9000 --redis-url redis://redis:6379/0"""


@click.command(cls=ProductCommand, help=_HELP)
@click.option("--host", metavar="ADDRESS", help="Where to listen.  [default: LOOPENGINE_HOST, else 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="0: any free one.  [default: LOOPENGINE_PORT, else 8787]")
@click.option("--worker/--no-worker", default=None, help="Bring a worker or not.  [default: only without REDIS_URL]")
@click.option("--open-to-all", is_flag=True, help="Listen where others can reach it, although nobody authenticates.")
@redis_url_option
@click.pass_obj
def command(
    _output: Output, host: str | None, port: int | None, worker: bool | None, open_to_all: bool, redis_url: str | None
) -> int:
    from loopengine.cli.serving import serve_api

    return serve_api(host, port, worker, open_to_all, Where(redis_url))
