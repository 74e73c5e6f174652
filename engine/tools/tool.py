"""Tools: a typed function, what the model sees of it, and the hints that decide how it may be run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["read", "idempotent", "effect"]
