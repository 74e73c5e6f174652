"""How long a POST waits, as its Prefer header says (RFC 7240)."""

from __future__ import annotations

import time

import pytest
from starlette.requests import Request

from api.preferences import preference_of
from tests.api.service import Service


def request_with(*prefer: str) -> Request:
    return Request({"type": "http", "headers": [(b"prefer", value.encode()) for value in prefer]})


@pytest.mark.parametrize(
    ("prefer", "wait_s", "applied"),
    [
        ((), 60, None),
        (("wait=5",), 5, "wait=5"),
        (("respond-async",), 0, "respond-async"),
        (("respond-async, wait=10",), 10, "respond-async, wait=10"),
        (("wait=10", "respond-async"), 10, "respond-async, wait=10"),
        (("Wait = 3 ; x=y, wait=9",), 3, "wait=3"),
        (('wait="7"',), 7, "wait=7"),
        (('foo="a, wait=1"; bar, handling=lenient',), 60, None),
        (("wait=-1",), 60, None),
        (("wait=soon",), 60, None),
        (("wait=1.5",), 60, None),
        (("wait=99999",), 600, "wait=600"),
        (("wait=" + "9" * 5000,), 60, None),
        (('"' * 900,), 60, None),
    ],
)
def test_preferences_are_followed_or_ignored_and_what_was_followed_is_told(
    prefer: tuple[str, ...], wait_s: float, applied: str | None
) -> None:
    preference = preference_of(request_with(*prefer), 60)

    assert preference.wait_s == wait_s
    assert preference.applied.get("preference-applied") == applied


async def test_when_the_waiting_time_is_up_the_turn_goes_on_and_the_answer_says_where_to_look(served: Service) -> None:
    before = time.monotonic()
    answer = await served.send("slow", headers={"prefer": "wait=0"})
    body = answer.json()

    assert time.monotonic() - before < 1
    assert (answer.status_code, body["type"], answer.headers["preference-applied"]) == (202, "running", "wait=0")
    assert body["state"] in ("queued", "running")
    assert await served.settled(body["turnId"]) == "done"
    assert (await served.http.get(body["statusUrl"])).json()["state"] == "idle"
