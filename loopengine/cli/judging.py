"""``check AGENT --tool``: one call, judged by the same code as in a turn."""

from __future__ import annotations

import asyncio
from typing import Any

from engine.agents.registry import AgentRegistry
from engine.rules.explain import explain
from engine.rules.verdict import Scope
from loopengine.cli.deployment import load_settings
from loopengine.cli.narration import arguments as shown
from loopengine.cli.options import Where
from loopengine.cli.queries import code_of
from loopengine.cli.streams import Output
from protocol.errors import InvalidRequest, MalformedRequest
from protocol.json_text import loads_strict


def judge_call(agent: str, tool: str, arguments: str, where: Where, output: Output, as_json: bool) -> int:
    """The exit code says that the question was answered, not what the answer is."""
    settings = load_settings(where, log_level="error")
    args = _parsed(arguments)
    loaded = AgentRegistry(settings.agents_dir, settings).get(agent)
    found = explain(loaded, Scope(settings.tenant, settings.environment, agent), tool, args)
    asyncio.run(_print(found, output, as_json))
    return code_of(output)


def _parsed(arguments: str) -> dict[str, Any]:
    try:
        args = loads_strict(arguments)
    except MalformedRequest as error:
        raise InvalidRequest(f"--args: {error}") from error
    if not isinstance(args, dict):
        raise InvalidRequest(f"--args: must be a JSON object like '{{\"key\": 1}}', found {arguments}")
    return args


async def _print(found: dict[str, Any], output: Output, as_json: bool) -> None:
    if as_json:
        await output.record({"type": "check:call", **found})
        return
    scope = found["scope"]
    await output.text(f"{found['effect']}: {found['tool']} {shown(found['args'])}")
    await output.text(f"  why: {found['reason']}")
    await output.text(f"  for: tenant {scope['tenant']}, environment {scope['environment']}, agent {scope['agent']}")
    for position, match in enumerate(found["matched"]):
        word = "decides" if position == 0 else "applies"
        await output.text(f"  {word}: {match['decision']} by {match['rule']} ({match['file']}:{match['line']})")
