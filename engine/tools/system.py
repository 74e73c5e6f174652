"""The tools that the product itself brings. Their schemas only: the loop does their work."""

from __future__ import annotations

from typing import Any

from engine.tools.tool import Tool

_TEXT: dict[str, Any] = {"type": "string", "minLength": 1, "pattern": r"\S"}


def _performed_by_the_loop(**_: Any) -> Any:
    raise TypeError("a system tool is performed by the loop, not called")


ASK_USER = Tool(
    name="ask_user",
    description=(
        "Ask the person you are working for a question and wait for the answer. Use it when the request is ambiguous "
        "or information is missing that no other tool can find."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "question": {**_TEXT, "description": "The question, complete in itself."},
            "options": {
                "type": "array",
                "items": _TEXT,
                "description": "Answers to choose from, if there are only a few sensible ones.",
            },
        },
        "required": ["question"],
        "additionalProperties": False,
    },
    function=_performed_by_the_loop,
    read_only=True,
)

SYSTEM_TOOLS: dict[str, Tool] = {ASK_USER.name: ASK_USER}

RESERVED_NAMES = frozenset({"ask_user", "system_read_file", "Skill"})
"""Names that mean something to the loop; an author's tool cannot have them."""
