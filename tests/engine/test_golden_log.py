"""A log that version 1 wrote, with each kind of record in it: it means the same to every later version.

The file is never rewritten. A new kind of record, or another meaning of one, gets a file and a version of its own.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.fold import _HANDLERS, fold
from engine.plan import next_steps
from engine.projection import messages_of, states_of

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "golden" / "log-v1.json").read_text())


def test_the_log_holds_every_kind_of_record() -> None:
    assert {record["t"] for record in GOLDEN["log"]} == _HANDLERS.keys()


def test_each_turn_folds_to_the_state_it_had() -> None:
    for turn, state in GOLDEN["states"].items():
        assert _known(asdict(fold(GOLDEN["log"], turn)), state) == state


def test_the_open_turn_goes_on_as_it_would_have() -> None:
    [step] = next_steps(fold(GOLDEN["log"], "t_open"), "another claim", 25)
    assert [type(step).__name__, step.call.path, step.kind] == GOLDEN["next step of t_open"]  # type: ignore[union-attr]


def test_the_provider_is_told_the_same() -> None:
    assert messages_of(states_of(GOLDEN["log"]).values()) == GOLDEN["messages"]


def _known(found: Any, expected: Any) -> Any:
    """``found`` without the fields that version 1 did not have."""
    if isinstance(expected, dict):
        return {name: _known(found[name], value) for name, value in expected.items()}
    if isinstance(expected, list):
        assert len(found) == len(expected)
        return [_known(one, value) for one, value in zip(found, expected, strict=True)]
    return found
