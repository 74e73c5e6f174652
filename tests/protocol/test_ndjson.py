"""NDJSON: lines end at LF and nowhere else."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from protocol import ndjson
from protocol.json_text import dumps


@given(
    st.lists(st.dictionaries(st.text(st.characters(), max_size=9), st.text(st.characters(), max_size=9)), max_size=5),
    st.data(),
)
def test_events_come_back_whole_however_the_bytes_are_cut(events: list[dict[str, str]], data: st.DataObject) -> None:
    written = [dumps(event) for event in events]
    sent = b"".join(ndjson.line(one) for one in written)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=6)))
    chunks = [sent[start:end] for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True)]
    assert list(ndjson.lines(chunks)) == written


def test_only_lf_ends_a_line() -> None:
    odd = '{"a":"x\u2028y\u0085z\x0b\x0c"}'.encode()
    assert list(ndjson.lines([odd + b"\n\n \r\n" + b"{}"])) == [odd, b"{}"]


@pytest.mark.parametrize("event", [b'{"a":\n1}', b'{"a":\r1}'])
def test_an_event_over_two_lines_is_refused(event: bytes) -> None:
    with pytest.raises(ValueError, match="line break"):
        ndjson.line(event)
