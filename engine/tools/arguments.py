"""Words for the model about a call that cannot be run: wrong arguments, a tool that does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_MAX_PROBLEMS = 3
_MAX_CHARS = 200


def unknown_tool(name: str, known: Iterable[str]) -> str:
    """Says that a tool does not exist, in words that do not sound like a missing permission."""
    names = ", ".join(sorted(known)) or "none"
    return f"There is no tool named {clip(repr(name))}. The tools are: {names}."


def argument_problems(validator: Any, schema: dict[str, Any], args: dict[str, Any]) -> list[str]:
    """What a JSON Schema validator (of jsonschema-rs) finds wrong, at most three short sentences."""
    try:
        errors = list(validator.iter_errors(args))
    except (ValueError, TypeError, RecursionError) as error:
        return [f"the arguments are not plain JSON ({clip(str(error))})"]
    words = [_words(error, schema) for error in errors[:_MAX_PROBLEMS]]
    return words + ([f"and {len(errors) - _MAX_PROBLEMS} more"] if len(errors) > _MAX_PROBLEMS else [])


def clip(text: str) -> str:
    return text if len(text) <= _MAX_CHARS else text[: _MAX_CHARS - 3] + "..."


def argument_name(path: Iterable[str | int]) -> str:
    return "argument '" + ".".join(str(part) for part in path) + "'"


def _words(error: Any, schema: dict[str, Any]) -> str:
    kind, path = error.kind, list(error.instance_path)
    match kind.name:
        case "required":
            name = argument_name([*path, kind.property])
            expected = _type_of(schema, kind.property) if not path else ""
            return f"{name} is missing" + (f" (expected {expected})" if expected else "")
        case "additionalProperties":
            unknown = ", ".join(argument_name([*path, name]) for name in kind.unexpected)
            known = ", ".join(schema.get("properties", {})) if not path else ""
            return f"unknown {clip(unknown)}" + (f" (known: {known})" if known else "")
        case "type":
            return f"{argument_name(path)}: expected {' or '.join(kind.types)}, got {_json_type(error.instance)}"
        case "anyOf":
            return f"{argument_name(path)}: {_alternatives(kind.context, error.instance)}"
    return f"{argument_name(path)}: {clip(error.message)}"


def _alternatives(failures: list[list[Any]], found: Any) -> str:
    """What an ``int | None`` and the like would have taken, or why the one alternative of the right type refuses."""
    reasons = [failure for alternative in failures for failure in alternative]
    others = [failure.message for failure in reasons if failure.kind.name != "type"]
    if others:
        return clip("; or ".join(others))
    types = [one for failure in reasons for one in failure.kind.types]
    return f"expected {' or '.join(types)}, got {_json_type(found)}"


def _type_of(schema: dict[str, Any], name: str) -> str:
    found = schema.get("properties", {}).get(name, {}).get("type", "")
    return found if isinstance(found, str) else " or ".join(found)


def _json_type(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"
