"""For every durable write: kill -9 just before it is sent and just after it was applied, and every promise holds.

FAULTS_REPEAT=5 plays every cell five times.
"""

from __future__ import annotations

import os

import pytest

from tests.faults.conftest import Play
from tests.faults.scenarios import SCENARIOS
from tests.faults.table import EXPECTED, as_markdown, cells, split_page

REPEAT = int(os.environ.get("FAULTS_REPEAT", "1"))


@pytest.mark.parametrize("name", SCENARIOS)
def test_whoever_is_killed_around_a_write_of(name: str, play: Play, redis_url: str) -> None:
    writes, problems = play(name, REPEAT)
    assert problems == []
    assert writes


def test_the_page_shows_the_table_as_it_was_generated(play: Play, redis_url: str) -> None:
    writes = {name: play(name, 0)[0] for name in SCENARIOS}
    assert split_page()[1] == as_markdown(writes), "run: python -m tests.faults page"
    assert sum(len(cells(those)) for those in writes.values()) >= 80
    assert {write for those in writes.values() for write in those} == EXPECTED.keys()
