"""What an operator sees of LoopEngine with RQ's own command."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.cases.ledger import asks, says, use
from tests.cases.product import case
from tests.processes import eventually

QUEUE = "loopengine"


def rq_info(redis_url: str, *options: str) -> str:
    command = [str(Path(sys.executable).with_name("rq")), "info", "--url", redis_url, *options]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return ended.stdout


async def test_rq_info_shows_the_queue_and_the_worker_while_a_turn_runs(redis_url: str, tmp_path: Path) -> None:
    scripts = {"^long$": [asks(use("toolu_l", "ledger_add", key="l", secs=5)), says("That took long.")]}
    rules = ["{tool: ledger_add, decision: allow}"]
    async with case(redis_url, tmp_path, scripts, rules=rules) as product:
        (worker,) = product.workers
        accepted = (await product.client.say("s", "long", wait_s=0)).json()
        eventually(lambda: product.ledger.count("begin l"))

        told = eventually(lambda: text if "busy" in (text := rq_info(redis_url)) else "")

        assert re.search(rf"^{QUEUE} +\| 0, 1 executing, 0 finished, 0 failed$", told, re.MULTILINE), told
        assert re.search(rf"\b{worker.pid}\): busy {QUEUE}\. jobs: 0 finished, 0 failed$", told, re.MULTILINE), told
        assert "1 workers, 1 queues" in told
        assert product.ledger.count("end l") == 0
        # And it is over when the turn is.
        await product.client.settled(accepted["turnId"], "done")
        eventually(
            lambda: re.search(r": idle loopengine\. jobs: \d+ finished, 0 failed$", rq_info(redis_url), re.MULTILINE)
        )
