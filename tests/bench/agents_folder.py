"""The agents that the benchmark measures with: one turn of 3 model calls and 2 tool calls, in four variants.

All are one module of Python written into a folder of the run. The model follows from the request alone, like a real
one, and costs next to nothing; both tools are effects, the strictest kind, so every intent and every result must be
durable before the next step.

    bench       everything answers at once
    bench-slow  each model call takes 1 s
    bench-gate  the second tool call waits for a person
    bench-held  the second model call does not come back while the file ``hold`` lies in the agent's folder; the
                process that is stuck in it writes its id to ``held``
"""

from __future__ import annotations

import json
from pathlib import Path

NAMES = ("bench", "bench-slow", "bench-gate", "bench-held")

_CODE = '''"""Three model calls, two tool calls."""

import asyncio
import os
from pathlib import Path

from engine.models.contract import ModelAnswer, ModelRequest, Usage
from loopengine import Agent, tool

MODEL_SECONDS, HOLDS = {model_s}, {holds}
FOLDER = Path(__file__).parent


@tool
async def note(text: str) -> str:
    """Take a note."""
    return f"noted: {{text}}"


@tool
async def file(number: int) -> str:
    """File the note."""
    return f"filed as {{number}}"


CALLS = (("note", {{"text": "arrived broken"}}), ("file", {{"number": 7}}))


class Model:
    provider = "bench"

    async def answer(self, request: ModelRequest, on_text: object = None) -> ModelAnswer:
        said = 0
        for message in request.messages:
            if message["role"] == "assistant":
                said += 1
            elif any(block["type"] == "text" for block in message["content"]):
                said = 0
        if MODEL_SECONDS:
            await asyncio.sleep(MODEL_SECONDS)
        if HOLDS and said == 1 and (FOLDER / "hold").exists():
            (FOLDER / "held.new").write_text(str(os.getpid()))
            (FOLDER / "held.new").replace(FOLDER / "held")
            await asyncio.Event().wait()
        if said >= len(CALLS):
            text = {{"type": "text", "text": "Noted and filed."}}
            return ModelAnswer([text], "end_turn", Usage(60, 6), "bench", "bench")
        name, arguments = CALLS[said]
        use = {{"type": "tool_use", "id": f"call_{{said}}", "name": name, "input": arguments}}
        return ModelAnswer([use], "tool_use", Usage(60, 12), "bench", "bench")


agent = Agent(system_prompt="You take notes.", model=Model(), tools=[note, file], system_tools=[])
'''


def write_agents(folder: Path) -> Path:
    """Write all variants below ``folder``/agents; answers that directory."""
    agents = folder / "agents"
    for name in NAMES:
        place = agents / name
        place.mkdir(parents=True)
        model_s = 1.0 if name == "bench-slow" else 0
        (place / "agent.py").write_text(_CODE.format(model_s=model_s, holds=name == "bench-held"))
        (place / "actauth.yml").write_text(_rules(gated=name == "bench-gate"))
    return agents


def _rules(*, gated: bool) -> str:
    # JSON is YAML.
    rules = [
        {"name": "notes", "tool": "note", "decision": "allow"},
        {"name": "files", "tool": "file", "decision": "ask" if gated else "allow"},
    ]
    return json.dumps({"default_decision": "deny", "rules": rules}, indent=2)
