"""Bad input of every kind: a clear problem document, and nothing changed."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx2
import pytest

from tests.api.service import Service

JSON = {"content-type": "application/json"}
SEND = "/agents/clerk/messages"


def assert_problem(answer: httpx2.Response, status: int) -> dict[str, Any]:
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    body: dict[str, Any] = answer.json()
    assert body["status"] == status
    assert body["detail"] == body["error"]
    assert body["type"]
    assert body["title"]
    assert "Traceback" not in answer.text
    return body


async def assert_nothing_happened(api: Service) -> None:
    assert (await api.http.get("/agents/clerk/sessions")).json() == {"sessions": []}


BODIES: list[tuple[bytes, int, str]] = [
    (b"", 400, "JSON"),
    (b"{", 400, "line 1"),
    (b'{"message": "a"} x', 400, "column"),
    (b'{"message": "a", "message": "b"}', 400, "twice"),
    (b'{"message": NaN}', 400, "NaN"),
    (b'{"message": "\xff"}', 400, "UTF-8"),
    (b'{"message": "\\ud800"}', 400, "surrogate"),
    (b"[" * 100_000, 400, "nested"),
    (b'{"a":' * 100_000, 400, "nested"),
    (b"9" * 900_000, 400, "64 bits"),
    (b"null", 422, "object"),
    (b"[]", 422, "object"),
    (b"{}", 422, "message"),
    (b'{"message": null}', 422, "message"),
    (b'{"message": 7}', 422, "message"),
    (b'{"message": ["a"]}', 422, "message"),
    (b'{"message": ""}', 422, "blank"),
    (b'{"message": " \\n\\t "}', 422, "blank"),
    (b'{"message": "a", "mesage": 1}', 422, "mesage"),
    (b'{"message": "a", "tenant": "other"}', 422, "tenant"),
    (b'{"message": "a", "onBusy": "wait"}', 422, "onBusy"),
    (b'{"message": "a", "sessionId": ""}', 422, "sessionId"),
    (b'{"message": "a", "sessionId": "a\\nb"}', 422, "sessionId"),
    (b'{"message": "a", "sessionId": "a/b"}', 422, "sessionId"),
    (b'{"message": "a", "sessionId": "' + b"s" * 257 + b'"}', 422, "sessionId"),
    (b'{"message": "a", "context": 1}', 422, "context"),
]


@pytest.mark.parametrize("path", [SEND, f"{SEND}/stream"])
async def test_a_body_that_is_not_acceptable_is_named_and_starts_nothing(api: Service, path: str) -> None:
    for body, status, word in BODIES:
        answer = await api.http.post(path, content=body, headers=JSON)
        assert word in assert_problem(answer, status)["detail"], body[:80]
    await assert_nothing_happened(api)


async def test_only_plain_json_is_taken(api: Service) -> None:
    posts = (SEND, "/approvals/t_x.1.0.1/approve", "/questions/t_x.1.0.1/answer", "/agents/clerk/sessions/s/cancel")
    for headers in (
        {},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "multipart/form-data; boundary=x"},
        {"content-type": "application/json; charset=latin-1"},
        {**JSON, "content-encoding": "gzip"},
        {**JSON, "content-encoding": "identity, zstd"},
    ):
        for path in posts:
            assert_problem(await api.http.post(path, content=b'{"message": "a"}', headers=headers), 415)
    await assert_nothing_happened(api)


async def test_json_with_a_charset_is_json(api: Service) -> None:
    headers = {"content-type": 'Application/JSON; Charset="UTF-8"', "prefer": "respond-async"}
    assert (await api.http.post(SEND, content=b'{"message": "a"}', headers=headers)).status_code == 202


async def test_a_body_or_message_beyond_the_limit_is_refused_however_it_is_sent(api: Service) -> None:
    async def chunks() -> Any:
        for _ in range(200):
            yield b" " * 10_000

    assert_problem(await api.http.post(SEND, content=b" " * 2_000_000, headers=JSON), 413)
    assert_problem(await api.http.post(SEND, content=chunks(), headers=JSON), 413)
    assert_problem(await api.http.post(SEND, json={"message": "x" * 1_000_001}), 422)
    await assert_nothing_happened(api)
    largest = await api.http.post(SEND, json={"message": "x" * 1_000_000}, headers={"prefer": "respond-async"})
    assert largest.status_code == 202


async def test_a_declared_size_beyond_the_limit_is_refused_before_anything_is_sent(api: Service) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", httpx2.URL(api.url).port)
    writer.write(b"POST " + SEND.encode() + b" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
    writer.write(b"Content-Length: 1000000000\r\nExpect: 100-continue\r\n\r\n")

    assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
    writer.close()


async def test_an_idempotency_key_has_1_to_255_printable_ascii_characters(api: Service) -> None:
    for bad in (b"", b"k" * 256, b"k" * 10_000, "ключ".encode(), b"a\x80b", b"a\tb"):
        answer = await api.http.post(SEND, json={"message": "a"}, headers={b"idempotency-key": bad})
        assert "Idempotency-Key" in assert_problem(answer, 422)["detail"]
    await assert_nothing_happened(api)
    for good in ("k", "a b-c:1", "k" * 255):
        headers = {"idempotency-key": good, "prefer": "respond-async"}
        assert (await api.http.post(SEND, json={"message": "a"}, headers=headers)).status_code == 202


async def test_what_is_not_there_is_404(api: Service) -> None:
    for method, path in (
        ("GET", "/"),
        ("GET", "/agents/"),
        ("GET", "/agents/none/sessions"),
        ("GET", "/agents/clerk/sessions/none"),
        ("GET", "/agents/clerk/sessions/none/stream"),
        ("POST", "/agents/clerk/sessions/none/cancel"),
        ("DELETE", "/agents/clerk/sessions/none"),
        ("POST", "/agents/none/messages"),
        ("POST", "/agents/..%2e/messages"),
        ("GET", "/turns/t_none"),
        ("GET", "/turns/" + "t" * 5000),
        ("GET", "/approvals/t_none.1.0.1"),
        ("GET", "/questions/x"),
        ("POST", "/approvals/t_none.1.0.1/approve"),
        ("POST", "/approvals/.../deny"),
        ("POST", "/questions/%00/answer"),
    ):
        body = {"answer": "a"} if path.endswith("answer") else {"message": "a"} if path.endswith("messages") else {}
        answer = await (api.http.post(path, json=body) if method == "POST" else api.http.request(method, path))
        assert_problem(answer, 404)


async def test_a_path_tells_which_methods_it_knows(api: Service) -> None:
    for method, path, allow in (
        ("PUT", "/agents/clerk/sessions/s", "DELETE, GET, HEAD, OPTIONS"),
        ("GET", SEND, "OPTIONS, POST"),
        ("POST", "/healthz", "GET, HEAD, OPTIONS"),
        ("PATCH", "/agents", "GET, HEAD, OPTIONS"),
    ):
        answer = await api.http.request(method, path)
        assert_problem(answer, 405)
        assert answer.headers["allow"] == allow
        options = await api.http.options(path)
        assert (options.status_code, options.headers["allow"]) == (204, allow)
        assert not [name for name in options.headers if name.startswith("access-control")]


async def test_what_is_not_http_is_a_problem_document_too(api: Service) -> None:
    assert_problem(await api.http.request("BREW", "/agents"), 400)
    assert_problem(await api.http.get("/agents", headers={b"x-odd": b"a\x7fb"}), 400)


async def test_head_answers_like_get_without_a_body_also_for_streams(api: Service) -> None:
    turn = await api.start("look")
    for path in ("/healthz", "/agents", turn["statusUrl"]):
        head, get = await api.http.head(path), await api.http.get(path)
        assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(len(get.content)))
    stream = await api.http.head(f"{turn['statusUrl']}/stream")
    assert (stream.status_code, stream.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")


async def test_a_slash_in_an_id_is_refused_also_when_it_is_encoded(api: Service) -> None:
    assert_problem(await api.http.get("/agents/clerk/sessions/a%2Fb"), 422)
    assert_problem(await api.http.get("/agents/clerk/sessions/" + "s" * 257), 422)
    assert_problem(await api.http.get("/agents/clerk/sessions/a%00b"), 422)
    assert_problem(await api.http.get("/agents/clerk/sessions?limit=0"), 422)
    assert_problem(await api.http.get("/agents/clerk/sessions?limit=many"), 422)


async def test_only_loopback_host_names_are_answered(api: Service) -> None:
    for host in ("evil.example", "evil.example:80", "localhost.evil.example", "[::2]", "", "127.1.evil"):
        assert_problem(await api.http.get("/agents", headers={"host": host}), 421)
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1:9", "127.3.2.1", "[::1]", "[::1]:80"):
        assert (await api.http.get("/healthz", headers={"host": host})).status_code == 200


async def test_a_page_of_another_origin_cannot_decide_or_cancel_without_a_body(api: Service) -> None:
    for origin in ("https://evil.example", "null", "http://localhost:1", "http://[::1"):
        for path in ("/approvals/t_x.1.0.1/approve", "/agents/clerk/sessions/s/cancel"):
            assert_problem(await api.http.post(path, headers={"origin": origin}), 403)
    own = await api.http.post("/agents/clerk/sessions/s/cancel", headers={"origin": api.url})
    assert_problem(own, 404)


async def test_an_answer_that_is_none_leaves_the_question_open(served: Service) -> None:
    parked = (await served.send("which colour?")).json()

    for answer in (None, ["red"], "", " ", "a" * 100_000, "a\u0007"):
        assert_problem(await served.http.post(parked["answerUrl"], json={"answer": answer}), 422)
    assert_problem(await served.http.post(parked["answerUrl"], json={}), 422)
    assert_problem(await served.http.post(parked["answerUrl"].replace("answer", "approve"), json={}), 404)
    assert (await served.http.get(f"/questions/{parked['id']}")).status_code == 200


async def test_a_decision_on_another_kind_digest_or_field_leaves_the_approval_open(served: Service) -> None:
    parked = (await served.send("pay")).json()

    assert_problem(await served.http.post(f"/questions/{parked['id']}/answer", json={"answer": "yes"}), 422)
    assert_problem(await served.http.post(parked["approveUrl"], json={"digest": "0" * 32}), 409)
    assert_problem(await served.http.post(parked["approveUrl"], json={"args": {"amount": 1}}), 422)
    assert_problem(await served.http.post(parked["approveUrl"], json={"by": ""}), 422)
    assert_problem(await served.http.post(parked["denyUrl"], json={"reason": 1}), 422)
    assert_problem(await served.http.post(parked["denyUrl"], content=b"[]", headers=JSON), 422)
    assert (await served.http.get(f"/approvals/{parked['id']}")).status_code == 200


async def test_a_broken_agent_is_named_with_file_and_line_and_the_others_work(api: Service) -> None:
    folder = api.settings.agents_dir / "broken"
    folder.mkdir()
    (folder / "agent.yml").write_text("name: broken\nsystemPrompt: [unclosed\n")

    listed = (await api.http.get("/agents")).json()
    assert listed["agents"] == [{"name": "clerk"}]
    assert listed["problems"]["broken"].startswith("broken/agent.yml:")
    problem = assert_problem(await api.send("hello", agent="broken"), 503)
    assert "broken/agent.yml:" in problem["detail"]
    for text in (str(listed), str(problem)):
        assert str(api.settings.agents_dir) not in text


async def test_a_missing_model_key_names_the_variable_and_nothing_is_stored(api: Service) -> None:
    folder = api.settings.agents_dir / "keyless"
    folder.mkdir()
    (folder / "agent.yml").write_text("name: keyless\nsystemPrompt: hi\nmodel: {provider: anthropic}\n")

    problem = assert_problem(await api.send("hello", agent="keyless"), 503)

    assert "ANTHROPIC_API_KEY" in problem["detail"]
    assert (await api.http.get("/agents/keyless/sessions")).json() == {"sessions": []}


async def test_a_fault_of_ours_shows_a_reference_and_no_more(api: Service, capfd: pytest.CaptureFixture[str]) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("secret detail")

    api.runtime.turn = broken  # type: ignore[assignment]
    problem = assert_problem(await api.http.get("/turns/t_x"), 500)

    assert "secret" not in str(problem)
    logged = capfd.readouterr()
    assert problem["reference"] in logged.out + logged.err


async def test_without_a_worker_a_message_is_kept_and_answered_at_once(api: Service) -> None:
    before = time.monotonic()
    body = (await api.send("look", sessionId="s")).json()

    assert time.monotonic() - before < 5
    assert (body["type"], body["state"], body["pending"]) == ("running", "queued", True)
    assert "waiting for a worker" in body["note"]
    assert body["statusUrl"] == "/agents/clerk/sessions/s"
    assert body["events"] == [{"type": "session", "sessionId": "s", "turnId": body["turnId"]}]
