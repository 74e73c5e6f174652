"""Who counts as dead, told from counters and the watcher's own clock only."""

from __future__ import annotations

import pytest

from engine.store.liveness import Watch

Look = tuple[float, dict[str, str]]

ONCE_A_SECOND = [float(second) for second in range(8)]

CASES: list[tuple[str, list[Look], set[str]]] = [
    ("a worker that beats is alive", [(t, {"w": str(t)}) for t in ONCE_A_SECOND], set()),
    ("a counter that stood still for a lease is a dead worker's", [(t, {"w": "1"}) for t in ONCE_A_SECOND], {"w"}),
    ("one that stood still for less is not", [(t, {"w": "1"}) for t in ONCE_A_SECOND[:5]], set()),
    (
        "only the one that stands still",
        [(t, {"w": "1", "v": str(t)}) for t in ONCE_A_SECOND],
        {"w"},
    ),
    (
        "one beat starts the count again",
        [(t, {"w": "1" if t < 4 else "2"}) for t in ONCE_A_SECOND],
        set(),
    ),
    (
        "a counter that went back was lost and written anew, by a living worker",
        [(t, {"w": "9" if t < 4 else "1"}) for t in ONCE_A_SECOND],
        set(),
    ),
    ("a worker whose counter is gone is not dead but unknown", [(0.0, {"w": "1"}), (1.0, {}), (2.0, {})], set()),
    (
        "one that comes back is counted from its return",
        [(0.0, {"w": "1"}), (1.0, {}), *[(t, {"w": "1"}) for t in (2.0, 3.0, 4.0, 5.0, 6.0)]],
        set(),
    ),
    (
        "a watcher that was away knows nothing about the meantime",
        [(0.0, {"w": "1"}), (1.0, {"w": "1"}), (100.0, {"w": "1"})],
        set(),
    ),
    (
        "after a gap a whole lease of watching is needed again",
        [(0.0, {"w": "1"}), *[(100.0 + t, {"w": "1"}) for t in range(5)]],
        set(),
    ),
    (
        "and then it is enough",
        [(0.0, {"w": "1"}), *[(100.0 + t, {"w": "1"}) for t in range(6)]],
        {"w"},
    ),
    ("two seconds between looks are no gap", [(t, {"w": "1"}) for t in (0.0, 2.0, 4.0, 6.0)], {"w"}),
    ("a little more is", [(t, {"w": "1"}) for t in (0.0, 2.1, 4.2, 6.3, 8.4)], set()),
]


@pytest.mark.parametrize(("looks", "dead"), [pytest.param(looks, dead, id=name) for name, looks, dead in CASES])
def test_a_worker_is_dead_when_its_counter_stood_still_for_a_watched_lease(looks: list[Look], dead: set[str]) -> None:
    watch = Watch(lease_s=5.0)
    for now, counters in looks:
        watch.look(now, counters)
    assert watch.dead(looks[-1][0]).keys() == dead


def test_the_dead_are_named_with_the_counter_they_stood_at() -> None:
    watch = Watch(lease_s=1.0)
    watch.look(0.0, {"w": "7"})
    watch.look(1.0, {"w": "7"})
    assert watch.dead(1.0) == {"w": "7"}


def test_somebody_is_alive_until_everybody_stood_still_for_a_lease() -> None:
    watch = Watch(lease_s=1.0)
    assert not watch.anyone_alive(0.0)
    watch.look(0.0, {"w": "7"})
    assert watch.anyone_alive(0.0)
    watch.look(1.0, {"w": "7", "v": "1"})
    assert watch.anyone_alive(1.0)
    watch.look(2.0, {"w": "7", "v": "1"})
    assert not watch.anyone_alive(2.0)
