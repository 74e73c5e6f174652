"""``loopengine check``: what is wrong before it matters, and which rule decides a given call."""

from __future__ import annotations

import click

from loopengine.cli.entry import ProductCommand
from loopengine.cli.options import Where, env_option, json_option, place_options
from loopengine.cli.streams import Output

_HELP = """Check settings, agents, rules and the store; or say which rule decides a call.

Without --tool: every mistake is printed with its file and line, and the exit code is 1 if there is one. With AGENT
only that agent is checked.

With --tool: nothing is run and no store is needed; the call is judged by the code that judges it in a turn.

\b
Examples:
  loopengine check
  loopengine check customer-service --tool issue_refund --args '{"orderId": "A-1001"}' --env staging"""


@click.command(cls=ProductCommand, help=_HELP)
@click.argument("agent", required=False)
@click.option("--tool", metavar="NAME", help="Judge a call of this tool.")
@click.option("--args", "arguments", metavar="JSON", help="The call's arguments, a JSON object.  [default: {}]")
@json_option("the findings (type check:problem, check:warning, check:result) or the judgement (type check:call)")
@env_option
@place_options
@click.pass_obj
def command(
    output: Output,
    agent: str | None,
    tool: str | None,
    arguments: str | None,
    as_json: bool,
    environment: str | None,
    tenant: str | None,
    redis_url: str | None,
) -> int:
    where = Where(redis_url, tenant, environment)
    if tool is None:
        if arguments is not None:
            raise click.UsageError("--args belongs to --tool NAME.")
        from loopengine.cli.checking import check_everything

        return check_everything(agent, where, output, as_json)
    if agent is None:
        raise click.UsageError("--tool needs the AGENT whose rules decide.")
    from loopengine.cli.judging import judge_call

    return judge_call(agent, tool, arguments or "{}", where, output, as_json)
