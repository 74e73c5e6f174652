"""A turn over HTTP from message to answer: the two shapes, decisions, sessions, cancelling, erasing."""

from __future__ import annotations

import asyncio

from tests.api.service import Service, running_worker


async def test_a_message_is_answered_with_text_and_every_event_when_its_turn_is_done(served: Service) -> None:
    answer = await served.send("look at it", sessionId="s one")

    assert answer.status_code == 200
    body = answer.json()
    assert (body["text"], body["sessionId"], "stopReason" in body) == ("Done.", "s one", False)
    assert body["events"][0] == {"type": "session", "sessionId": "s one", "turnId": body["turnId"]}
    assert body["events"][-1] == {"type": "done", "text": "Done."}


async def test_a_parked_turn_answers_with_its_card_and_each_decision_with_what_comes_next(served: Service) -> None:
    first = await served.send("pay twice")
    second = await served.http.post(first.json()["approveUrl"])
    third = await served.http.post(second.json()["approveUrl"], json={"by": "Ann", "digest": second.json()["digest"]})

    assert (first.status_code, second.status_code, third.status_code) == (202, 202, 200)
    assert (first.json()["type"], first.json()["tool"], first.json()["args"]) == ("approval", "pay", {"amount": 1})
    assert second.json()["args"] == {"amount": 2}
    assert second.json()["decision"]["what"] == "approve"
    assert second.json()["decision"]["by"] == "anonymous"
    assert third.json()["decision"]["by"] == "Ann"
    assert third.json()["text"] == "Paid twice."
    assert first.json()["events"] == third.json()["events"][: len(first.json()["events"])]


async def test_a_repeated_decision_gets_the_same_answer_and_a_contrary_one_the_winner(served: Service) -> None:
    parked = (await served.send("pay")).json()
    won = await served.http.post(parked["approveUrl"], json={})
    repeated = await served.http.post(parked["approveUrl"], content=b"")
    contrary = await served.http.post(parked["denyUrl"], json={"reason": "no"})

    assert (won.status_code, repeated.status_code, contrary.status_code) == (200, 200, 409)
    assert repeated.json() == won.json()
    assert contrary.json()["decision"] == won.json()["decision"]
    assert contrary.headers["content-type"] == "application/problem+json"
    shown = await served.http.get(f"/approvals/{parked['id']}")
    assert (shown.status_code, shown.json()["decision"]) == (409, won.json()["decision"])


async def test_of_many_decisions_at_once_one_counts_and_everybody_is_told_which(served: Service) -> None:
    parked = (await served.send("pay")).json()
    answers = await asyncio.gather(
        *(served.http.post(parked[url]) for _ in range(10) for url in ("approveUrl", "denyUrl"))
    )

    decisions = [answer.json()["decision"] for answer in answers]
    assert decisions == [decisions[0]] * 20
    assert sorted(answer.status_code for answer in answers) == [200] * 10 + [409] * 10
    events = (await served.http.get(f"/turns/{parked['turnId']}")).json()["events"]
    assert [event["type"] for event in events].count("actauth:decision") == 2  # one for look, one for pay
    assert [event["type"] for event in events].count("done") == 1


async def test_a_decision_without_a_worker_is_kept_and_carried_out_when_one_comes(api: Service) -> None:
    async with running_worker(api):
        parked = (await api.send("pay")).json()
    for _ in range(2):
        decided = await api.http.post(parked["approveUrl"])
        assert (decided.status_code, decided.json()["type"], decided.json()["state"]) == (202, "running", "queued")
        assert "waiting for a worker" in decided.json()["note"]
        assert decided.json()["decision"]["what"] == "approve"
    async with running_worker(api):
        assert await api.settled(parked["turnId"]) == "done"
    assert (await api.http.post(parked["approveUrl"])).json()["text"] == "Paid."


async def test_a_denied_turn_is_done_and_says_so(served: Service) -> None:
    parked = (await served.send("pay")).json()
    denied = await served.http.post(parked["denyUrl"], json={"reason": "too much", "by": "Bob"})

    assert (denied.status_code, denied.json()["stopReason"]) == (200, "denied")
    assert {"type": "loop:denied", "deniedTools": ["pay"]} in denied.json()["events"]


async def test_a_question_is_answered_with_exactly_the_text_that_was_sent(served: Service) -> None:
    parked = (await served.send("which colour?")).json()
    assert (parked["type"], parked["question"], parked["options"]) == ("question", "Which colour?", ["red", "blue"])
    listed = (await served.http.get("/questions")).json()["questions"]

    done = await served.http.post(listed[0]["answerUrl"], json={"answer": "  green, please\n"})

    assert (done.status_code, done.json()["text"]) == (200, "Thanks.")
    session = (await served.http.get(parked["statusUrl"])).json()
    assert session["messages"][1]["calls"][0]["result"] == "  green, please\n"
    assert (await served.http.post(parked["answerUrl"], json={"answer": "  green, please\n"})).status_code == 200
    assert (await served.http.post(parked["answerUrl"], json={"answer": "red"})).status_code == 409


async def test_the_inbox_lists_open_items_of_all_sessions_newest_last_and_looking_decides_nothing(
    served: Service,
) -> None:
    first, second = (await served.send("pay")).json(), (await served.send("pay")).json()
    listed = (await served.http.get("/approvals")).json()["approvals"]

    assert [item["id"] for item in listed] == [first["id"], second["id"]]
    shown = (await served.http.get(f"/approvals/{first['id']}")).json()
    assert shown == listed[0]
    assert shown | {"type": "approval", "agent": "clerk", "sessionId": first["sessionId"]} == shown
    assert (shown["approveUrl"], shown["denyUrl"]) == (first["approveUrl"], first["denyUrl"])
    assert (await served.http.get("/questions")).json() == {"questions": []}
    assert (await served.http.get(f"/questions/{first['id']}")).status_code == 404


async def test_a_message_behind_a_parked_turn_is_queued_and_told_the_item_in_its_way(served: Service) -> None:
    parked = (await served.send("pay", sessionId="s")).json()
    behind = await served.send("look", sessionId="s")

    assert behind.status_code == 202
    assert (behind.json()["queued"], behind.json()["id"]) == (True, parked["id"])
    assert behind.json()["turnId"] != parked["turnId"]
    rejected = await served.send("look", sessionId="s", onBusy="reject")
    assert (rejected.status_code, rejected.json()["turnId"]) == (409, parked["turnId"])
    assert rejected.json()["item"]["id"] == parked["id"]
    await served.http.post(parked["approveUrl"])
    assert await served.settled(behind.json()["turnId"]) == "done"


async def test_interrupting_closes_the_open_item_without_allowing_it(served: Service) -> None:
    parked = (await served.send("pay", sessionId="s")).json()
    answer = await served.send("look", sessionId="s", onBusy="interrupt")

    assert (answer.status_code, answer.json()["text"]) == (200, "Done.")
    assert (await served.http.post(parked["approveUrl"])).status_code == 409
    turn = (await served.http.get(f"/turns/{parked['turnId']}")).json()
    assert (turn["state"], turn["stopReason"]) == ("done", "cancelled")


async def test_a_repeated_cancel_that_names_its_turn_leaves_the_one_behind_it_alone(served: Service) -> None:
    first = (await served.send("pay", sessionId="s")).json()["turnId"]
    second = (await served.send("pay", sessionId="s")).json()["turnId"]
    path = f"/agents/clerk/sessions/s/cancel?turn={first}"

    answers = [(await served.http.post(path)).json()["cancelled"] for _ in range(2)]

    assert answers == [True, False]
    assert await served.settled(second) == "parked"


async def test_cancelling_ends_the_active_turn_and_erasing_removes_the_session(served: Service) -> None:
    parked = (await served.send("pay", sessionId="s")).json()
    cancelled = await served.http.post("/agents/clerk/sessions/s/cancel")
    again = await served.http.post("/agents/clerk/sessions/s/cancel", json={})

    assert cancelled.json() == {
        "cancelled": True,
        "sessionId": "s",
        "turnId": parked["turnId"],
        "statusUrl": "/agents/clerk/sessions/s",
    }
    assert again.json()["cancelled"] is False
    assert (await served.http.delete("/agents/clerk/sessions/s")).status_code == 204
    for path in ("/agents/clerk/sessions/s", "/agents/clerk/sessions/s/stream", f"/turns/{parked['turnId']}"):
        assert (await served.http.get(path)).status_code == 404
    assert (await served.http.delete("/agents/clerk/sessions/s")).status_code == 404


async def test_sessions_are_listed_latest_first_and_shown_with_turns_messages_and_usage(served: Service) -> None:
    await served.send("look", sessionId="old")
    await served.send("pay", sessionId="new / ü?".replace("/", "-"))
    listed = (await served.http.get("/agents/clerk/sessions")).json()["sessions"]

    assert [(line["sessionId"], line["state"]) for line in listed] == [("new - ü?", "parked"), ("old", "idle")]
    shown = (await served.http.get(listed[0]["statusUrl"])).json()
    assert (shown["state"], shown["item"]["tool"], shown["turns"][0]["state"]) == ("parked", "pay", "parked")
    assert shown["messages"][0]["text"] == "pay"
    old = (await served.http.get(listed[1]["statusUrl"])).json()
    assert (old["state"], [message["role"] for message in old["messages"]]) == (
        "idle",
        ["user", "assistant", "assistant"],
    )
    assert (await served.http.get("/agents/clerk/sessions", params={"limit": 1})).json()["sessions"] == listed[:1]


async def test_the_same_key_finds_the_same_turn_from_many_requests_at_once(served: Service) -> None:
    answers = await asyncio.gather(*(served.send("look", headers={"idempotency-key": "k 1"}) for _ in range(20)))

    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["turnId"] for answer in answers}) == 1
    other = await served.send("look elsewhere", headers={"idempotency-key": "k 1"})
    assert other.status_code == 409
    assert len((await served.http.get("/agents/clerk/sessions")).json()["sessions"]) == 1


async def test_ten_messages_to_one_session_at_once_are_ten_turns_one_after_the_other(served: Service) -> None:
    answers = await asyncio.gather(*(served.send(f"look {n}", sessionId="s") for n in range(10)))

    assert [answer.status_code for answer in answers] == [200] * 10
    session = (await served.http.get("/agents/clerk/sessions/s")).json()
    assert [turn["state"] for turn in session["turns"]] == ["done"] * 10
    assert [message["role"] for message in session["messages"]] == ["user", "assistant", "assistant"] * 10
    assert {message["text"] for message in session["messages"][::3]} == {f"look {n}" for n in range(10)}
