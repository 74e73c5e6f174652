"""``loopengine approvals``: what waits for a yes or no."""

from __future__ import annotations

import click

from loopengine.cli.entry import ProductGroup
from loopengine.cli.options import Where, json_option, place_options
from loopengine.cli.streams import Output


@click.group(name="approvals", cls=ProductGroup)
def command() -> None:
    """See and decide the tool calls that wait for approval.

    \b
    Examples:
      loopengine approvals list
      loopengine approvals approve t_5sK0vPq2aZ7nWc9eRt4LmX.2.0.1
    """


@command.command("list")
@json_option("each approval (its approval:pending event)")
@place_options
@click.pass_obj
def list_(output: Output, as_json: bool, tenant: str | None, redis_url: str | None) -> int:
    """List the calls that wait for approval, oldest first.

    \b
    Example:
      loopengine approvals list --json | jq -r .id
    """
    from loopengine.cli.items import list_items

    return list_items("approval", Where(redis_url, tenant), output, as_json)


@command.command()
@click.argument("id_", metavar="ID")
@json_option("the approval (its approval:pending event)")
@place_options
@click.pass_obj
def show(output: Output, id_: str, as_json: bool, tenant: str | None, redis_url: str | None) -> int:
    """Show one call with its arguments, the rule that asks, and how to decide.

    \b
    Example:
      loopengine approvals show t_5sK0vPq2aZ7nWc9eRt4LmX.2.0.1
    """
    from loopengine.cli.items import show_item

    return show_item("approval", id_, Where(redis_url, tenant), output, as_json)


_digest_option = click.option(
    "--digest", metavar="HEX", help="Decide only if the arguments are still those of this digest."
)


@command.command()
@click.argument("id_", metavar="ID")
@_digest_option
@json_option("the rest of the turn's events")
@place_options
@click.pass_obj
def approve(
    output: Output, id_: str, digest: str | None, as_json: bool, tenant: str | None, redis_url: str | None
) -> int:
    """Let the call run, exactly as shown, and follow the turn to its end like `loopengine run`.

    \b
    Example:
      loopengine approvals approve t_5sK0vPq2aZ7nWc9eRt4LmX.2.0.1
    """
    from loopengine.cli.items import decide

    return decide(id_, "approve", Where(redis_url, tenant), output, as_json, digest=digest)


@command.command()
@click.argument("id_", metavar="ID")
@click.option("--reason", metavar="TEXT", help="Why; the agent sees it.")
@_digest_option
@json_option("the rest of the turn's events")
@place_options
@click.pass_obj
def deny(
    output: Output,
    id_: str,
    reason: str | None,
    digest: str | None,
    as_json: bool,
    tenant: str | None,
    redis_url: str | None,
) -> int:
    """Refuse the call. The turn ends (exit code 4); the session can go on with the next message.

    \b
    Example:
      loopengine approvals deny t_5sK0vPq2aZ7nWc9eRt4LmX.2.0.1 --reason "the parcel was not returned"
    """
    from loopengine.cli.items import decide

    return decide(id_, "deny", Where(redis_url, tenant), output, as_json, digest=digest, text=reason)
