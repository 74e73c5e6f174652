"""The whole loop: a claimed turn is taken as far as it can go.

Fold the log, ask the planner what may happen now, put it on paper, perform it, make it durable, and again. Nothing
here remembers anything: a turn that resumes on another worker, an hour or a crash later, runs these same lines.
What is decided is decided in named functions: `next_steps` (plan.py), the words and events of each step (drafts.py),
the verdict on each call (judge.py), what a failed attempt means (perform.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import get_args

from engine import budget, drafts
from engine.agents.loaded import LoadedAgent
from engine.drafts import Draft
from engine.limits import Limits, limits_of, over_limit
from engine.perform import Services, ask_model, run_call
from engine.plan import CallModel, NextStep, PaperStep, RunCall, next_steps
from engine.store.store import Ending
from engine.turn import Turn

MOST_DEATHS = 3  # owners lost without any progress between them: then the turn itself is taken for the cause
LANE_WIDTH = 8  # read-only calls that run at once
STOP_S = 2.0  # for a cancelled step to clean up; a tool has been left behind by then (run.GRACE_S)

_left_behind: set[asyncio.Task[Draft]] = set()  # the event loop keeps only weak references to tasks


async def run_turn(turn: Turn, agent: LoadedAgent, services: Services) -> None:
    """Returns when the turn has left this owner: done, parked, or waiting for its provider.

    Raises TurnLost as soon as a commit finds that the turn belongs to somebody else."""
    if turn.claim.deaths >= MOST_DEATHS:
        words = f"the turn was given up: {turn.claim.deaths} workers in a row were lost while they ran it"
        return await give_up(turn, words)
    limits = limits_of(agent, services.turn_timeout_s)
    if turn.claim.deaths:
        turn.draft(drafts.resumed(turn.claim.deaths))

    while not turn.left:
        steps = next_steps(turn.state, turn.claim.token, agent.max_turns)
        if reason := over_limit(steps, turn.state, limits, turn.used_ms):
            return await give_up(turn, reason)
        step = steps[0]
        if isinstance(step, get_args(PaperStep)):
            if ending := turn.write_down(step):
                await turn.commit(ending)
            continue

        if turn.hand_back:
            await turn.commit()  # before the next intent: one that is on record and never began would be unknown
        turn.draft(opening(steps, turn, agent))
        if turn.finished_something:
            await turn.commit()  # every finished step is durable, and every effect announced, before the next begins
        async for outcome in perform(steps, turn, agent, services, limits):
            turn.draft(outcome)
    return None


def opening(steps: Sequence[NextStep], turn: Turn, agent: LoadedAgent) -> Draft:
    """What is on record before an outside step begins: the budget of a model call, the intent of tool calls."""
    if isinstance(steps[0], CallModel):
        used = budget.tokens_of(turn.messages(), agent.system_prompt)
        return budget.check(used, agent.context_budget_tokens, steps[0].at, bool(turn.state.notes))
    return drafts.open_calls((step for step in steps if isinstance(step, RunCall)), turn.terms)


async def perform(
    steps: Sequence[NextStep], turn: Turn, agent: LoadedAgent, services: Services, limits: Limits
) -> AsyncIterator[Draft]:
    """Run outside steps side by side and hand out each outcome when it is there.

    When the turn's time is over first, what still runs is cancelled and hands out nothing."""
    narrow = asyncio.Semaphore(LANE_WIDTH)

    async def one(step: NextStep) -> Draft:
        async with narrow:
            if isinstance(step, RunCall):
                return await run_call(step.call, agent, services, turn.terms)
            return await ask_model(agent, services, turn.state, turn.messages(), turn.terms)

    work = [asyncio.create_task(one(step)) for step in steps]
    try:
        while work:
            if not (done := await turn.first_of(work, limits)):
                return
            ready, work = [t for t in work if t in done], [t for t in work if t not in done]
            for task in ready:
                yield task.result()
    finally:
        await stop(work)


async def stop(work: Sequence[asyncio.Task[Draft]]) -> None:
    """Cancel what still runs. What does not stop is left behind: nobody waits for it, and nothing of it is kept."""
    for task in work:
        task.cancel()
    if work:
        _, left = await asyncio.wait(work, timeout=STOP_S)
        _left_behind.update(left)
        for task in work:
            task.add_done_callback(_forget)


def _forget(task: asyncio.Task[Draft]) -> None:
    _left_behind.discard(task)
    if not task.cancelled():
        task.exception()  # looked at, so that asyncio does not report it as never retrieved


async def give_up(turn: Turn, reason: str) -> None:
    """End the turn with ``error``: each call without a result gets one that says so."""
    draft = drafts.close("error", reason, turn.state, turn.terms)
    turn.draft(draft)
    await turn.commit(draft.ending or Ending("done"))
