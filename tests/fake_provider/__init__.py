"""A strict fake model provider: a real HTTP server that answers from a script and refuses what real ones refuse."""

from __future__ import annotations

from tests.fake_provider.process import FakeProcess, running_fake
from tests.fake_provider.rules import Mode, Rules
from tests.fake_provider.script import Entry, Script, calls, refusal, text
from tests.fake_provider.server import FakeProvider, Received

__all__ = [
    "Entry", "FakeProcess", "FakeProvider", "Mode", "Received", "Rules", "Script",
    "calls", "refusal", "running_fake", "text",
]  # fmt: skip
