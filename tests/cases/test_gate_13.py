"""GATE-13: ask_user waits for a person."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cases.conversations import requests_about, results_in
from tests.cases.ledger import AGENT, asks, says, use
from tests.cases.product import Product, case
from tests.processes import running

QUESTION = asks(use("toolu_q", "ask_user", question="Which colour?", options=["red", "blue"]))
TWO = asks(use("toolu_1", "ask_user", question="First?"), use("toolu_2", "ask_user", question="Second?"))
SCRIPTS = {"^colour$": [QUESTION, says("Thanks.")], "^both$": [TWO, says("Thanks for both.")]}
FREE_TEXT = ' a shade of green, \u00fcn\u00efc\u00f6de \u2028 {"answer": "red"}\n\tand a table '


async def ask(product: Product, session: str, text: str = "colour") -> dict[str, Any]:
    answer = await product.client.say(session, text, wait_s=60)
    assert (answer.status_code, answer.json()["type"]) == (202, "question"), answer.text
    return dict(answer.json())


async def test_a_question_stays_open_until_a_person_answers_it(redis_url: str, tmp_path: Path) -> None:
    async with case(redis_url, tmp_path, SCRIPTS) as product:
        # 1. gate13.json over the API; wait. Instead of the case's 3 minutes: several sweeps of the worker, and the
        # store holds no time at which anything would happen.
        asked = await ask(product, "s")
        await asyncio.to_thread(product.wait_for_beats)
        assert product.due() == 0
        assert "expiresAt" not in asked
        # 1: "still open after 3 minutes, no model call."
        assert [item["id"] for item in await product.client.pending("s")] == [asked["id"]]
        assert (await product.client.show("s"))["state"] == "parked"
        assert len(product.fake.requests) == 1

        await bad_answers_leave_it_open(product, asked)
        await answered_exactly(product, asked, "red")
        # 4. A good answer, once one of the options and once free text.
        await answered_exactly(product, await ask(product, "free"), FREE_TEXT)
        await two_questions_one_after_the_other(product)


async def bad_answers_leave_it_open(product: Product, asked: dict[str, Any]) -> None:
    # 3. ANSWER with: {}; {"answer":null}; {"answer":["red"]}; an empty text; 100 KB of text; text with control
    # characters.
    bad: list[Any] = [{}, {"answer": None}, {"answer": ["red"]}, "", "  \n", "x" * 100_000, "r\x00d", "\x1b[31mred"]
    for value in bad:
        refused = await product.client.answer(asked["id"], value)
        # 3: "422 and still open (or, for long text, a documented limit)." The limit stands in PROTOCOL.md: 20 000.
        assert refused.status_code == 422, (value, refused.text)
    assert [item["id"] for item in await product.client.pending("s")] == [asked["id"]]
    assert len(product.fake.requests) == 1


async def answered_exactly(product: Product, asked: dict[str, Any], text: str) -> None:
    answered = await product.client.answer(asked["id"], text, wait_s=60)
    assert (answered.status_code, answered.json()["text"]) == (200, "Thanks."), answered.text
    # 4: "the result the model sees holds exactly the answer (options are suggestions)."
    seen = requests_about(product.fake.requests, "colour")[-1]
    assert [result[:2] for result in results_in(seen)] == [("toolu_q", text)]
    calls_of_model = len(product.fake.requests)

    # 5. The same answer again, then a different one.
    again = await product.client.answer(asked["id"], text, wait_s=60)
    other = await product.client.answer(asked["id"], "blue", wait_s=60)
    # 5: "200 same, then 409."
    assert again.status_code == 200
    assert again.json() == answered.json()
    assert (other.status_code, other.json()["decision"]) == (409, answered.json()["decision"])
    assert len(product.fake.requests) == calls_of_model


async def two_questions_one_after_the_other(product: Product) -> None:
    # 6. Two questions in one model message.
    first = await ask(product, "two", "both")
    assert first["question"] == "First?"
    assert len(await product.client.pending("two")) == 1
    second = (await product.client.answer(first["id"], "one", wait_s=60)).json()
    # 6: "one after the other."
    assert (second["type"], second["question"]) == ("question", "Second?")
    assert [item["id"] for item in await product.client.pending("two")] == [second["id"]]
    assert len(requests_about(product.fake.requests, "both")) == 1
    done = await product.client.answer(second["id"], "two", wait_s=60)
    assert done.json()["text"] == "Thanks for both."
    seen = requests_about(product.fake.requests, "both")[-1]
    assert [result[:2] for result in results_in(seen)] == [("toolu_1", "one"), ("toolu_2", "two")]


@pytest.mark.parametrize("workers", [1, 0], ids=["with-a-worker", "alone"])
async def test_the_command_line_without_a_terminal_shows_the_question_and_leaves_it_open(
    redis_url: str, tmp_path: Path, workers: int
) -> None:
    async with case(redis_url, tmp_path, SCRIPTS, workers=workers) as product:
        # 2. Same through the CLI with stdin closed - and with nothing on it, which programs treat as another thing.
        outputs = [await run_colour(product, session, stdin) for session, stdin in STDIN.items()]

        for session, output in zip(STDIN, outputs, strict=True):
            (item,) = await product.client.pending(session)
            # 2: "the CLI prints the question with its id and ends with exit code 3;"
            assert "Which colour?" in output
            assert item["id"] in output
        # "it never sends an answer by itself."
        assert len(product.fake.requests) == len(STDIN)
        if not workers:
            product.start_worker()
        for session in STDIN:
            (item,) = await product.client.pending(session)
            await product.client.answer(item["id"], "blue")
            assert (await product.client.settled(item["turnId"], "done"))["text"] == "Thanks."


STDIN = {"closed": "<&-", "empty": "</dev/null"}


async def run_colour(product: Product, session: str, stdin: str) -> str:
    """What ``loopengine run`` writes until it ends with exit code 3."""
    command = ["sh", "-c", f'exec "$@" {stdin}', "sh", sys.executable, "-m", "loopengine"]
    arguments = ["run", AGENT, "--session", session, "colour"]
    log = product.folder / f"run-{session}.log"
    with running([*command, *arguments], log, cwd=product.folder, env=product.env) as run:
        code = await asyncio.to_thread(run.wait, 60)
        assert code == 3, run.output
        return run.output
