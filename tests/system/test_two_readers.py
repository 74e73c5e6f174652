"""Two clients of one turn, on two API processes: whoever is cut off ends with what the other one has."""

from __future__ import annotations

import asyncio
from pathlib import Path

from protocol.sse import Frame
from tests.cases.client import Client
from tests.cases.ledger import asks, says, use
from tests.cases.product import case

STEPS = 4
MOST = 100  # more events than the turn can have
SCRIPT = [
    *(asks(use(f"toolu_{step}", "read_note"), use(f"toolu_{step}b", "read_note"), sleep=0.2) for step in range(STEPS)),
    asks(use("toolu_add", "ledger_add", key="k", secs=0.2)),
    says("All read.", sleep=0.2),
]


async def cut_after_every_event(client: Client, session: str) -> list[Frame]:
    """TAIL for one event at a time, each time with the id of the last one."""
    frames: list[Frame] = []
    while not frames or frames[-1].event != "done":
        assert len(frames) < MOST, frames
        frames += await client.tail(session, frames[-1].id if frames else None, most=1)
    return frames


async def test_a_reader_that_reconnects_after_every_event_sees_the_same_sequence(
    redis_url: str, tmp_path: Path
) -> None:
    async with case(redis_url, tmp_path, {"^read$": SCRIPT}, apis=2) as product:
        steady, shaky = (api.client for api in product.apis)
        accepted = (await steady.say("s", "read", wait_s=0)).json()
        # Both read while the turn runs, while it is parked, and on from there.
        reading = [
            asyncio.create_task(steady.tail("s")),
            asyncio.create_task(cut_after_every_event(shaky, "s")),
        ]
        item = await steady.opened("s")
        assert (await shaky.decide(item["id"], "allow", by="kim")).status_code in (200, 202)

        whole, pieces = await asyncio.gather(*reading)

        assert pieces == whole  # ids, types and data
        assert len(whole) == len((await steady.turn(accepted["turnId"]))["events"]) > 4 * STEPS
