"""The rules on the Messages API."""

from __future__ import annotations

from typing import Any

from tests.fake_provider.rules_tools import NAME, is_blank, problem_with_names, problem_with_pairs, unknown_key

Block = dict[str, Any]
Message = dict[str, Any]

THINKING = ("thinking", "redacted_thinking")
BODY = {"model", "max_tokens", "messages", "system", "tools", "stream", "tool_choice", "thinking", "metadata",
        "stop_sequences", "cache_control", "output_config"}  # fmt: skip
BLOCK_KEYS = {
    "text": {"type", "text", "cache_control"},
    "tool_use": {"type", "id", "name", "input", "cache_control"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
}
ALLOWED = {"user": {"text", "tool_result"}, "assistant": {"text", "tool_use", *THINKING}}


def problem_with_messages(body: dict[str, Any], answers: list[list[Block]]) -> str | None:
    messages = body.get("messages")
    if problem := unknown_key("body", body, BODY):
        return problem
    if not isinstance(body.get("model"), str) or not isinstance(body.get("max_tokens"), int):
        return "model and max_tokens are required"
    if not isinstance(messages, list) or not messages or messages[0].get("role") != "user":
        return "messages: the first one must be the user's"
    if isinstance(body.get("system"), str) and is_blank(body["system"]):
        return "system: text content blocks must be non-empty"
    problem = problem_with_names(tool.get("name") for tool in body.get("tools", []))
    for number, message in enumerate(messages):
        is_last = number == len(messages) - 1
        problem = problem or _problem_with_message(f"messages.{number}", message, is_last)
    return problem or _problem_with_calls(messages) or _problem_with_thinking(messages, answers)


def _problem_with_message(where: str, message: Message, is_last: bool) -> str | None:
    if problem := unknown_key(where, message, {"role", "content"}):
        return problem
    role, content = message.get("role"), message.get("content")
    if role not in ALLOWED:
        return f"{where}: unknown role {role!r}"
    if isinstance(content, str):
        return f"{where}: text content must be non-empty" if is_blank(content) else None
    if not isinstance(content, list):
        return f"{where}: content must be text or a list"
    if not content and not is_last:
        return f"{where}: all messages must have non-empty content except for the optional final assistant message"
    for number, block in enumerate(content):
        if problem := _problem_with_block(f"{where}.content.{number}", block, ALLOWED[role]):
            return problem
    return _problem_with_order(where, [block["type"] for block in content])


def _problem_with_block(where: str, block: Block, allowed: set[str]) -> str | None:
    kind = block.get("type")
    if kind not in allowed:
        return f"{where}: a block of type {kind!r} cannot be here"
    if problem := unknown_key(where, block, BLOCK_KEYS[kind]):
        return problem
    if kind == "text" and is_blank(block.get("text")):
        return f"{where}: text content blocks must contain non-whitespace text"
    if kind == "tool_use":
        return _problem_with_use(where, block)
    if kind == "tool_result" and is_blank(block.get("content")):
        return f"{where}: text content blocks must contain non-whitespace text"
    return None


def _problem_with_use(where: str, block: Block) -> str | None:
    if not isinstance(block.get("input"), dict):
        return f"{where}: input must be an object"
    for field in ("id", "name"):
        if not isinstance(block.get(field), str) or not NAME.fullmatch(block[field]):
            return f"{where}: {field} {block.get(field)!r} does not match {NAME.pattern}"
    return None


def _problem_with_order(where: str, kinds: list[str]) -> str | None:
    if "tool_use" in kinds and any(kind != "tool_use" for kind in kinds[kinds.index("tool_use") :]):
        return f"{where}: behind the first tool_use there may only be tool_use blocks"
    if "tool_result" in kinds and "tool_result" in kinds[kinds.count("tool_result") :]:
        return f"{where}: tool_result blocks must come first"
    if kinds and all(kind in THINKING for kind in kinds):
        return f"{where}: an answer cannot consist of thinking alone"
    return None


def _problem_with_calls(messages: list[Message]) -> str | None:
    seen: set[str] = set()
    pending: list[str] = []
    for number, message in enumerate(messages):
        blocks = _blocks(message)
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if problem := problem_with_pairs(f"messages.{number}", pending, results):
            return problem
        pending = [block["id"] for block in blocks if block["type"] == "tool_use"]
        for id_ in pending:
            if id_ in seen:
                return f"messages.{number}: tool_use ids must be unique, {id_!r} is there twice"
            seen.add(id_)
    return problem_with_pairs(f"messages.{len(messages)}", pending, [])


def _problem_with_thinking(messages: list[Message], answers: list[list[Block]]) -> str | None:
    """Every thinking block must be one that was sent; those of the open turn's answers must all be there.

    The open turn is what came after the last message that is the user's own, without results.
    """
    sent = [block for answer in answers for block in answer if block["type"] in THINKING]
    own = [n for n, m in enumerate(messages) if m["role"] == "user" and not _has_results(m)]
    opened = own[-1] if own else 0
    for number, message in enumerate(messages):
        blocks = _blocks(message)
        thinking = [block for block in blocks if block["type"] in THINKING]
        if any(block not in sent for block in thinking):
            return f"messages.{number}: thinking blocks cannot be modified"
        answer = _answer_of(blocks, answers) if message["role"] == "assistant" else None
        if answer is None:
            continue
        expected = [block for block in answer if block["type"] in THINKING]
        if thinking != expected and (thinking or number > opened):
            return f"messages.{number}: thinking blocks of an answer must be the same as they were sent"
    return None


def _answer_of(blocks: list[Block], answers: list[list[Block]]) -> list[Block] | None:
    """The answer that a message goes back to: the one with its first call."""
    ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
    if not ids:
        return None
    return next((a for a in answers if any(block.get("id") == ids[0] for block in a)), None)


def _has_results(message: Message) -> bool:
    return any(block["type"] == "tool_result" for block in _blocks(message))


def _blocks(message: Message) -> list[Block]:
    content = message["content"]
    return content if isinstance(content, list) else [{"type": "text", "text": content}]
