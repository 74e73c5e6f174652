"""What real providers refuse, as rules over one request body. A rule that is broken is a sentence, else None.

1  every call is answered by exactly one result in the very next message, no result lacks its call
2  behind the first call of an answer there are only calls
3  no text is blank, no message is empty (the last one excepted)
4  thinking comes back byte for byte, or is gone from a closed turn as a whole
5  tool names are short, plain and unique; arguments are objects
6  the body is strict JSON and not too long (server.py)
7  reasoning_content: needed by DeepSeek with calls, refused by its R1 and by OpenAI
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from tests.fake_provider.rules_anthropic import problem_with_messages
from tests.fake_provider.rules_openai import problem_with_chat

Block = dict[str, Any]
Mode = Literal["openai", "deepseek", "r1"]


class Rules:
    """Remembers the answers that were given, because thinking and reasoning are judged by what was sent."""

    def __init__(self) -> None:
        self._answers: list[list[Block]] = []

    def remember(self, blocks: Iterable[Block]) -> None:
        """An answer that was sent, or one that a test pretends was sent before."""
        self._answers.append([dict(block) for block in blocks])

    def anthropic(self, body: dict[str, Any]) -> str | None:
        return problem_with_messages(body, self._answers)

    def openai(self, body: dict[str, Any], mode: Mode = "openai") -> str | None:
        return problem_with_chat(body, self._answers, mode)
