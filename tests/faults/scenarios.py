"""The stories in which every write is killed: what people do, and how it must end whatever dies on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Do = Literal["say", "approve", "deny", "answer", "outcome", "held", "parked", "cancel", "erase"]


@dataclass(frozen=True)
class Step:
    """``text``: the message, the answer. ``held`` and ``parked`` wait until the turn has come so far."""

    do: Do
    text: str = ""


@dataclass(frozen=True)
class Scenario:
    """``ends``: outcome of each message's turn. ``effects``: how often each tool has its effect in the end; None
    stands for at most once. ``slow``: opening events are flushed, as in any step that takes its time; without, they
    wait for their step's commit."""

    name: str
    steps: tuple[Step, ...]
    ends: tuple[str, ...] = ("done",)
    effects: Mapping[str, int | None] = field(default_factory=dict)
    slow: bool = False
    max_turns: int = 6
    expiry_s: float | None = None


def _say(message: str, *more: Step) -> tuple[Step, ...]:
    return (Step("say", message), *more)


APPROVE, DENY = Step("approve"), Step("deny")

SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("plain answer", _say("plain")),
        Scenario("plain answer, slow", _say("plain"), slow=True),
        Scenario("parallel reads", _say("reads")),
        Scenario("parallel reads, slow", _say("reads"), slow=True),
        Scenario("effect", _say("effect"), effects={"act": 1}),
        Scenario("effect, slow", _say("effect"), effects={"act": 1}, slow=True),
        Scenario("two effects", _say("two effects"), effects={"act": 2}),
        Scenario("idempotent effect", _say("idempotent")),
        Scenario("approved", _say("gated", APPROVE), effects={"pay": 1}),
        Scenario("denied", _say("gated", DENY), ("denied",)),
        Scenario("mixed batch, approved", _say("mixed", APPROVE), effects={"act": 1, "pay": 1}),
        Scenario("question", _say("question", Step("answer", "blue"))),
        Scenario("batch denied by a rule", _say("forbidden")),
        Scenario("invalid call", _say("invalid")),
        Scenario("model cut, then good", _say("cut"), effects={"act": 1}),
        Scenario("provider busy", _say("busy"), effects={"act": 1}),
        Scenario("max turns", _say("endless"), ("max_turns",), {"act": 1}, max_turns=2),
        Scenario("approval expires", _say("gated"), ("denied",), expiry_s=0.1),
        Scenario("cancelled while running", _say("hold", Step("held"), Step("cancel")), ("cancelled",), {"hold": None}),
        Scenario("cancelled while parked", _say("gated", Step("parked"), Step("cancel")), ("cancelled",)),
        Scenario("unknown, run again", _say("crash early", Step("outcome", "run again")), effects={"crash_early": 1}),
        Scenario(
            "unknown, it happened", _say("crash late", Step("outcome", "it happened")), effects={"crash_late": None}
        ),
        Scenario("unknown, it failed", _say("crash early", Step("outcome", "it failed"))),
        Scenario(
            "second message waits",
            _say("gated", Step("parked"), Step("say", "effect"), APPROVE),
            ("done", "done"),
            {"pay": 1, "act": 1},
        ),
        Scenario(
            "second message, first cancelled",
            _say("gated", Step("parked"), Step("say", "effect"), Step("cancel")),
            ("cancelled", "done"),
            {"act": 1},
        ),
        Scenario("erased", _say("effect", Step("erase")), (), {"act": 1}),
    )
}
