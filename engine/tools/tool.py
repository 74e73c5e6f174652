"""Tools: a typed function, what the model sees of it, and the hints that decide how it may be run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import jsonschema_rs

from engine.tools.arguments import argument_problems
from engine.tools.signature import Signature

Kind = Literal["read", "idempotent", "effect"]
OnInterrupt = Literal["ask", "fail"]

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what the model providers accept


@dataclass(frozen=True, eq=False)
class Tool:
    """One tool of an agent. Still callable like the function it was made of.

    ``timeout_s`` None: the deployment's default. ``on_interrupt`` says what becomes of an effect whose worker died in
    the middle: a person is asked, or the model gets an error. ``signature`` None: the tool takes its arguments as
    they came (a system tool; its work is done by the loop).
    """

    name: str
    description: str
    input_schema: dict[str, Any]
    function: Callable[..., Any]
    read_only: bool = False
    idempotent: bool = False
    timeout_s: float | None = None
    on_interrupt: OnInterrupt = "ask"
    signature: Signature | None = None
    _validator: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"the tool name {self.name!r} must be 1 to 64 of the characters a-z A-Z 0-9 _ -")
        if self.timeout_s is not None and not 0 < self.timeout_s < float("inf"):
            raise ValueError(f"the timeout of tool {self.name!r} is {self.timeout_s}, expected seconds above 0")
        if self.on_interrupt not in ("ask", "fail"):
            raise ValueError(f"on_interrupt of tool {self.name!r} is {self.on_interrupt!r}, expected 'ask' or 'fail'")
        object.__setattr__(self, "_validator", jsonschema_rs.validator_for(self.input_schema))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    @property
    def kind(self) -> Kind:
        """How it may be repeated: ``read`` and ``idempotent`` after a crash, an ``effect`` never by itself."""
        if self.read_only:
            return "read"
        return "idempotent" if self.idempotent else "effect"

    def problem_with(self, args: dict[str, Any]) -> str | None:
        """What is wrong with these arguments, in words for the model ("argument 'key' is missing"); None if nothing."""
        problems = argument_problems(self._validator, self.input_schema, args)
        if not problems and self.signature is not None:
            problems = self.signature.conversion_problems(args)
        return "; ".join(problems) or None

    def with_defaults(self, args: dict[str, Any]) -> dict[str, Any]:
        """The arguments that the function will see: a rule must not be escaped by leaving out a default."""
        properties: dict[str, Any] = self.input_schema.get("properties", {})
        defaults = {name: one["default"] for name, one in properties.items() if "default" in one and name not in args}
        return {**args, **defaults}
