from pathlib import Path
from tests.cases.product import case
from tests.cases.ledger import asks, says, use


async def test_it(redis_url: str, tmp_path: Path) -> None:
    async with case(redis_url, tmp_path, {"^x$": [asks(use("a", "read_note")), says("Done.")]}, workers=1) as p:
        r = await p.client.say("s", "x")
        print(r.status_code, r.text)
