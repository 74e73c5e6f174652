"""Event streams: frames that nothing can break out of, and a parser that follows the standard."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from protocol.json_text import dumps
from protocol.sse import Cursor, Decoder, Frame, comment, frame


def test_a_frame_has_id_type_and_one_line_of_data() -> None:
    cursor = str(Cursor(3, "aZ09_-xy"))
    assert frame(b'{"type":"done"}', "done", cursor) == b'id: 3-aZ09_-xy\nevent: done\ndata: {"type":"done"}\n\n'
    assert frame(b"{}", "assistant:delta", None) == b"event: assistant:delta\ndata: {}\n\n"


@pytest.mark.parametrize("bad", ["a\nb", "a\rb", "a\0b", "\n", "a\u2028b"])
def test_a_line_break_cannot_enter_a_frame(bad: str) -> None:
    with pytest.raises(ValueError):
        frame(b"{}", bad, "1-aaaaaaaa")
    with pytest.raises(ValueError):
        frame(b"{}", "done", bad)
    if bad.isascii():
        with pytest.raises(ValueError, match="line break or NUL"):
            frame(bad.encode(), "done", None)


def test_a_comment_with_line_breaks_stays_a_comment() -> None:
    assert comment("ping") == b": ping\n\n"
    assert Decoder().feed(comment("a\nevent: done\r\ndata: x\rdata: y")) == []


@given(st.lists(st.text(st.characters(), max_size=30), max_size=5), st.data())
def test_every_text_comes_through_whole_however_the_bytes_are_cut(texts: list[str], data: st.DataObject) -> None:
    sent = b"".join(
        frame(dumps(text), "assistant:text", str(Cursor(n, "writer_1"))) + comment("ping")
        for n, text in enumerate(texts, start=1)
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=8)))
    decoder, frames = Decoder(), []
    for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
        frames += decoder.feed(sent[start:end])
    assert frames == [
        Frame("assistant:text", dumps(text).decode(), f"{n}-writer_1") for n, text in enumerate(texts, start=1)
    ]


EXAMPLES = [
    (b"data: a\n\n", [("message", "a", "")]),
    (b"data: a\r\rdata: b\r\n\r\n", [("message", "a", ""), ("message", "b", "")]),
    (b"data: a\ndata\ndata:\ndata:  b\n\n", [("message", "a\n\n\n b", "")]),
    (b"data\n\n", [("message", "", "")]),
    (b"\xef\xbb\xbfdata: a\n\n", [("message", "a", "")]),
    (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n", [("message", "b", "")]),
    (b": c\nevent: x\n: d\ndata: a\n\ndata: b\n\n", [("x", "a", ""), ("message", "b", "")]),
    (b"event: x\n\ndata: a\n\n", [("message", "a", "")]),
    (
        b"id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n",
        [("message", "a", "1"), ("message", "b", "1"), ("message", "c", "")],
    ),
    (b"id: 1\n\nid: 2\0\ndata: a\n\n", [("message", "a", "1")]),
    (b"data: a", []),
    (b"data: a\n", []),
    (b"Data: a\n data: a\nfoo: bar\n\n", []),
    ("data: a\u2028b\u0085c\x0b\x0cd\n\n".encode(), [("message", "a\u2028b\u0085c\x0b\x0cd", "")]),
    (b"data: \xff\xe2\x82\n\n", [("message", "\ufffd\ufffd", "")]),
    (b"data: x:y\ndata:z\n\n", [("message", "x:y\nz", "")]),
]


@pytest.mark.parametrize(("sent", "expected"), EXAMPLES, ids=[ascii(sent) for sent, _ in EXAMPLES])
def test_the_parser_does_what_the_standard_says(sent: bytes, expected: list[tuple[str, str, str]]) -> None:
    wanted = [Frame(*one) for one in expected]
    assert Decoder().feed(sent) == wanted
    one_by_one = Decoder()
    assert [found for byte in sent for found in one_by_one.feed(bytes([byte]))] == wanted


def test_an_id_counts_for_reconnecting_only_once_its_block_is_over() -> None:
    decoder = Decoder(last_event_id="7-aaaaaaaa")
    assert decoder.feed(b"id: 8-aaaaaaaa\ndata: a\n") == []
    assert decoder.last_event_id == "7-aaaaaaaa"
    assert decoder.feed(b"\n") == [Frame("message", "a", "8-aaaaaaaa")]
    assert decoder.last_event_id == "8-aaaaaaaa"


def test_retry_is_taken_only_from_digits() -> None:
    decoder = Decoder()
    decoder.feed(b"retry: 1500\nretry: 2s\nretry: -1\nretry:\nretry: \xc2\xb2\n")
    assert decoder.retry_ms == 1500


@given(st.integers(1, 10**9), st.text("abcXYZ019_-", min_size=8, max_size=8))
def test_a_cursor_is_what_its_text_says(n: int, writer: str) -> None:
    assert Cursor.parse(str(Cursor(n, writer))) == Cursor(n, writer)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "abc",
        "-1",
        "0",
        "1",
        "0-aaaaaaaa",
        "01-aaaaaaaa",
        "+1-aaaaaaaa",
        "1-aaaaaaa",
        "1-aaaaaaaaa",
        "1-aaaa aaa",
        "1-aaaaaaaa\n",
        " 1-aaaaaaaa",
        "1000000001-aaaaaaaa",
        "9" * 10_000,
        "99999999999999-0",
        "\u0661-aaaaaaaa",
        "1-\u00e9aaaaaaa",
    ],
    ids=lambda text: ascii(text[:20]),
)
def test_anything_else_is_no_cursor(text: str) -> None:
    assert Cursor.parse(text) is None
