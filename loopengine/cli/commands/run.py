"""``loopengine run``: one message to an agent, followed to its end."""

from __future__ import annotations

import click

from loopengine.cli.entry import ProductCommand
from loopengine.cli.options import Where, env_option, json_option, place_options
from loopengine.cli.streams import Output

_HELP = """Send AGENT a message and follow its turn: the answer on stdout, what happens on stderr.

When the agent needs an approval or an answer, you are asked at a terminal. Elsewhere the command ends with exit code
3 and says how to decide; whoever decides, now or tomorrow, sees the rest. If no worker runs, this command runs the
turn itself. Ctrl-C ends the command, never the turn.

\b
Examples:
  loopengine run customer-service "order A-1001 arrived broken, can you refund it?"
  loopengine run customer-service --session jo-1 "where is order A-1002?"
  loopengine run customer-service --json --input "hello" | jq .type"""


@click.command(cls=ProductCommand, help=_HELP)
@click.argument("agent")
@click.argument("message", required=False, nargs=-1, metavar="[MESSAGE]")
@click.option("--input", "input_", metavar="MESSAGE", help="The message, for callers that build the line in code.")
@click.option("--session", metavar="ID", help="Continue this conversation, or begin it.  [default: a new one]")
@json_option("the events")
@env_option
@place_options
@click.pass_obj
def command(
    output: Output,
    agent: str,
    message: tuple[str, ...],
    input_: str | None,
    session: str | None,
    as_json: bool,
    environment: str | None,
    tenant: str | None,
    redis_url: str | None,
) -> int:
    if (input_ is None) == (not message):
        raise click.UsageError("give one message: as MESSAGE or with --input MESSAGE.")
    text = input_ if input_ is not None else " ".join(message)

    from engine.runtime import NewTurn
    from loopengine.cli.conversation import Conversation, converse
    from protocol.errors import NotFound

    async def send(talk: Conversation) -> int:
        settings = talk.runtime.settings
        new = NewTurn(settings.tenant, settings.environment, agent, text, session_id=session)
        try:
            accepted = await talk.runtime.accept(new)
        except NotFound as error:
            here = ", ".join(talk.runtime.agents.names()) or "none"
            raise NotFound(f"{error}; those in {settings.agents_dir.absolute()}: {here}") from error
        return await talk.follow(accepted.turn_id)

    return converse(Where(redis_url, tenant, environment), output, as_json, send)
