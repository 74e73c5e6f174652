"""``loopengine sessions``: conversations, as they stand."""

from __future__ import annotations

import click

from loopengine.cli.entry import ProductGroup
from loopengine.cli.options import Where, json_option, place_options
from loopengine.cli.streams import Output


@click.group(name="sessions", cls=ProductGroup)
def command() -> None:
    """See, stop and delete conversations. A session belongs to one agent; its id is yours to choose.

    \b
    Examples:
      loopengine sessions list
      loopengine sessions show customer-service jo-1
    """


@command.command("list")
@click.option("--agent", metavar="AGENT", help="Only those with this agent.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="At most so many.")
@json_option("each session (type session:status)")
@place_options
@click.pass_obj
def list_(
    output: Output, agent: str | None, limit: int, as_json: bool, tenant: str | None, redis_url: str | None
) -> int:
    """List sessions, latest first.

    \b
    Example:
      loopengine sessions list --agent customer-service
    """
    from loopengine.cli.sessions import list_sessions

    return list_sessions(agent, limit, Where(redis_url, tenant), output, as_json)


@command.command()
@click.argument("agent")
@click.argument("session")
@json_option("the session (type session:status)")
@place_options
@click.pass_obj
def show(output: Output, agent: str, session: str, as_json: bool, tenant: str | None, redis_url: str | None) -> int:
    """Show what was said and done in a session, and what it waits for.

    \b
    Example:
      loopengine sessions show customer-service jo-1
    """
    from loopengine.cli.sessions import show_session

    return show_session(agent, session, Where(redis_url, tenant), output, as_json)


@command.command()
@click.argument("agent")
@click.argument("session")
@json_option("what was cancelled (type session:cancelled)")
@place_options
@click.pass_obj
def cancel(output: Output, agent: str, session: str, as_json: bool, tenant: str | None, redis_url: str | None) -> int:
    """End the session's active turn. What waits behind it goes on, and what was said stays.

    \b
    Example:
      loopengine sessions cancel customer-service jo-1
    """
    from loopengine.cli.sessions import cancel_session

    return cancel_session(agent, session, Where(redis_url, tenant), output, as_json)


@command.command()
@click.argument("agent")
@click.argument("session")
@json_option("what was deleted (type session:deleted)")
@place_options
@click.pass_obj
def delete(output: Output, agent: str, session: str, as_json: bool, tenant: str | None, redis_url: str | None) -> int:
    """Cancel all turns of the session and erase everything that is stored about it. There is no way back.

    \b
    Example:
      loopengine sessions delete customer-service jo-1
    """
    from loopengine.cli.sessions import delete_session

    return delete_session(agent, session, Where(redis_url, tenant), output, as_json)
