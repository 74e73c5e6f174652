"""The rules on Chat Completions, for OpenAI itself and in the two ways of DeepSeek."""

from __future__ import annotations

from typing import Any

from tests.fake_provider.rules_tools import NAME, is_blank, problem_with_names, problem_with_pairs, unknown_key
from tests.fake_provider.strict_json import strict_loads

Message = dict[str, Any]

BODY = {"model", "messages", "max_tokens", "max_completion_tokens", "stream", "stream_options", "tools", "tool_choice",
        "parallel_tool_calls", "metadata", "stop", "reasoning_effort", "response_format", "store", "user"}  # fmt: skip
MESSAGE_KEYS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "tool_calls", "refusal"},
    "tool": {"role", "content", "tool_call_id"},
}


def problem_with_chat(body: dict[str, Any], answers: list[list[dict[str, Any]]], mode: str) -> str | None:
    if problem := unknown_key("body", body, BODY):
        return problem
    messages = body.get("messages")
    if not isinstance(body.get("model"), str) or not isinstance(messages, list) or not messages:
        return "model and messages are required"
    problem = problem_with_names(tool.get("function", {}).get("name") for tool in body.get("tools", []))
    for number, message in enumerate(messages):
        problem = problem or _problem_with_message(f"messages.{number}", message, mode)
    return problem or _problem_with_calls(messages) or _problem_with_reasoning(messages, answers, mode)


def _problem_with_message(where: str, message: Message, mode: str) -> str | None:
    role = message.get("role")
    if role not in MESSAGE_KEYS:
        return f"{where}: unknown role {role!r}"
    known = MESSAGE_KEYS[role] | ({"reasoning_content"} if mode == "deepseek" and role == "assistant" else set())
    if problem := unknown_key(where, message, known):
        return problem
    calls = message.get("tool_calls")
    if calls is not None and not calls:
        return f"{where}: tool_calls must not be empty"
    may_be_null = role == "assistant" and bool(calls)
    if is_blank(message.get("content")) and not (may_be_null and message.get("content") is None):
        return f"{where}: content must not be blank"
    for call in calls or []:
        if problem := _problem_with_call(where, call):
            return problem
    return None


def _problem_with_call(where: str, call: dict[str, Any]) -> str | None:
    if problem := unknown_key(where, call, {"id", "type", "function"}):
        return problem
    function = call.get("function", {})
    if not call.get("id") or call.get("type") != "function":
        return f"{where}: a call needs an id and the type function"
    if not isinstance(function.get("name"), str) or not NAME.fullmatch(function["name"]):
        return f"{where}: the name {function.get('name')!r} does not match {NAME.pattern}"
    try:
        arguments = strict_loads(function.get("arguments", ""))
    except ValueError as error:
        return f"{where}: arguments are not JSON: {error}"
    return None if isinstance(arguments, dict) else f"{where}: arguments must be an object"


def _problem_with_calls(messages: list[Message]) -> str | None:
    pending: list[str] = []
    results: list[str] = []
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            results.append(message["tool_call_id"])
            continue
        if problem := problem_with_pairs(f"messages.{number}", pending, results):
            return problem
        pending, results = [call["id"] for call in message.get("tool_calls") or []], []
    return problem_with_pairs(f"messages.{len(messages)}", pending, results)


def _problem_with_reasoning(messages: list[Message], answers: list[list[dict[str, Any]]], mode: str) -> str | None:
    if mode != "deepseek":
        return None
    for number, message in enumerate(messages):
        ids = [call["id"] for call in message.get("tool_calls") or []]
        answer = next((a for a in answers if ids and any(block.get("id") == ids[0] for block in a)), [])
        expected = "".join(block["thinking"] for block in answer if block["type"] == "thinking")
        if expected and message.get("reasoning_content") != expected:
            return f"messages.{number}: the reasoning_content of an answer with calls must be sent back"
    return None
