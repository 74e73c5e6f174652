"""``loopengine questions``: what agents ask people."""

from __future__ import annotations

import click

from loopengine.cli.entry import ProductGroup
from loopengine.cli.options import Where, json_option, place_options
from loopengine.cli.streams import Output


@click.group(name="questions", cls=ProductGroup)
def command() -> None:
    """See and answer the questions of agents.

    \b
    Examples:
      loopengine questions list
      loopengine questions answer t_5sK0vPq2aZ7nWc9eRt4LmX.1.0.1 "the blue one"
    """


@command.command("list")
@json_option("each question (its question:pending event)")
@place_options
@click.pass_obj
def list_(output: Output, as_json: bool, tenant: str | None, redis_url: str | None) -> int:
    """List the questions that wait for an answer, oldest first.

    \b
    Example:
      loopengine questions list --json | jq -r .question
    """
    from loopengine.cli.items import list_items

    return list_items("question", Where(redis_url, tenant), output, as_json)


@command.command()
@click.argument("id_", metavar="ID")
@json_option("the question (its question:pending event)")
@place_options
@click.pass_obj
def show(output: Output, id_: str, as_json: bool, tenant: str | None, redis_url: str | None) -> int:
    """Show one question with its options and how to answer it.

    \b
    Example:
      loopengine questions show t_5sK0vPq2aZ7nWc9eRt4LmX.1.0.1
    """
    from loopengine.cli.items import show_item

    return show_item("question", id_, Where(redis_url, tenant), output, as_json)


@command.command()
@click.argument("id_", metavar="ID")
@click.argument("text")
@json_option("the rest of the turn's events")
@place_options
@click.pass_obj
def answer(output: Output, id_: str, text: str, as_json: bool, tenant: str | None, redis_url: str | None) -> int:
    """Answer a question with TEXT, given to the agent as it stands, and follow the turn like `loopengine run`.

    Options of a question are suggestions: type one out or say something else. Only a question about what became of
    an interrupted call takes nothing but one of its options.

    \b
    Example:
      loopengine questions answer t_5sK0vPq2aZ7nWc9eRt4LmX.1.0.1 "the blue one"
    """
    from loopengine.cli.items import decide

    return decide(id_, "answer", Where(redis_url, tenant), output, as_json, text=text)
