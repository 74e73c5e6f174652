"""``loopengine turns``: single turns by their id."""

from __future__ import annotations

import click

from loopengine.cli.entry import ProductGroup
from loopengine.cli.options import Where, json_option, place_options
from loopengine.cli.streams import Output


@click.group(name="turns", cls=ProductGroup)
def command() -> None:
    """See what became of a turn, or follow it while it runs.

    \b
    Examples:
      loopengine turns show t_5sK0vPq2aZ7nWc9eRt4LmX
      loopengine turns follow t_5sK0vPq2aZ7nWc9eRt4LmX
    """


@command.command()
@click.argument("id_", metavar="ID")
@json_option("the turn with its events (type turn:status)")
@place_options
@click.pass_obj
def show(output: Output, id_: str, as_json: bool, tenant: str | None, redis_url: str | None) -> int:
    """Show a turn as it stands now: state, events, open item, answer.

    \b
    Example:
      loopengine turns show t_5sK0vPq2aZ7nWc9eRt4LmX
    """
    from loopengine.cli.sessions import show_turn

    return show_turn(id_, Where(redis_url, tenant), output, as_json)


@command.command()
@click.argument("id_", metavar="ID")
@json_option("the events")
@place_options
@click.pass_obj
def follow(output: Output, id_: str, as_json: bool, tenant: str | None, redis_url: str | None) -> int:
    """Show a turn's events from the first to its end, and take care of it like `loopengine run` did.

    \b
    Example:
      loopengine turns follow t_5sK0vPq2aZ7nWc9eRt4LmX
    """
    from loopengine.cli.conversation import Conversation, converse

    async def follow_it(talk: Conversation) -> int:
        return await talk.follow(id_)

    return converse(Where(redis_url, tenant), output, as_json, follow_it)
