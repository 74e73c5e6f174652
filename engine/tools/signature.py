"""A typed function seen as a tool: its JSON Schema, and JSON arguments turned into its Python values.

Reads types and the docstring (Google style: a summary, then ``Args:``); knows nothing about running.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from engine.tools.arguments import argument_name, clip
from engine.tools.context import ToolContext

_SECTION = re.compile(r"(Args|Arguments|Parameters|Returns?|Raises|Yields|Examples?|Notes?):\s*$")
_ARGUMENT = re.compile(r"(\*{0,2}\w+)\s*(?:\([^)]*\))?:\s*(.*)$")


@dataclass(frozen=True)
class Signature:
    """``names`` gives the function's parameter for each field of ``model``; the model's aliases are the JSON names."""

    model: type[BaseModel]
    names: dict[str, str]
    context_parameter: str | None
    description: str
    input_schema: dict[str, Any]

    def conversion_problems(self, args: dict[str, Any]) -> list[str]:
        """What the types refuse beyond the JSON Schema (a date that is none, a custom check)."""
        try:
            self.model.model_validate(args)
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            return [f"{argument_name(one['loc'])}: {clip(one['msg'])}" for one in found[:3]]
        return []

    def bind(self, args: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        """Keyword arguments for the function. Raises pydantic's ValidationError."""
        values = self.model.model_validate(args)
        bound = {name: getattr(values, field) for field, name in self.names.items()}
        if self.context_parameter is not None:
            bound[self.context_parameter] = context
        return bound


class _Schema(GenerateJsonSchema):
    """No generated titles (they cost tokens and repeat the names), no warning about a default JSON cannot hold."""

    ignored_warning_kinds = {"non-serializable-default", "skipped-choice"}  # noqa: RUF012 - the base class's way

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


def read_signature(function: Callable[..., Any]) -> Signature:
    """Raises TypeError in words for the author when a parameter cannot be described to a model."""
    name = getattr(function, "__name__", type(function).__name__)
    hints = _type_hints(function, name)
    summary, descriptions = read_docstring(inspect.getdoc(function) or "")
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    context_parameter: str | None = None
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"tool {name!r}: {parameter} has no name a model could use; name every parameter")
        if parameter.name not in hints:
            raise TypeError(f"tool {name!r}: the parameter {parameter.name!r} has no type; annotate it")
        if hints[parameter.name] is ToolContext:
            context_parameter = parameter.name
            continue
        # Fields are numbered and carry the real name as alias: pydantic reserves names like "schema" and "_x".
        field = f"p{len(fields)}"
        names[field] = parameter.name
        fields[field] = _field(hints[parameter.name], parameter, descriptions.get(parameter.name))
    try:
        model = create_model("Arguments", __config__=ConfigDict(extra="forbid"), **fields)
        schema = model.model_json_schema(by_alias=True, schema_generator=_Schema)
    except (PydanticUserError, TypeError) as error:
        raise TypeError(f"tool {name!r}: a parameter's type cannot be given to a model: {error}") from error
    schema.pop("title", None)
    schema.setdefault("properties", {})
    return Signature(model, names, context_parameter, summary, schema)


def _type_hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    target = function if hasattr(function, "__code__") else type(function).__call__
    try:
        return typing.get_type_hints(inspect.unwrap(target), include_extras=True)
    except NameError as error:
        raise TypeError(
            f"tool {name!r}: {error}; import the names of its annotations outside of TYPE_CHECKING"
        ) from error


def _field(hint: Any, parameter: inspect.Parameter, description: str | None) -> tuple[Any, FieldInfo]:
    metadata = [one for one in getattr(hint, "__metadata__", ()) if isinstance(one, FieldInfo)]
    alias = next((one.alias for one in metadata if one.alias), parameter.name)
    default = ... if parameter.default is parameter.empty else parameter.default
    if description is None or any(one.description for one in metadata):
        return hint, Field(default, alias=alias)  # a description given here would replace the annotation's
    return hint, Field(default, alias=alias, description=description)


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The part before the first section, and the descriptions under ``Args:`` by parameter."""
    summary: list[str] = []
    descriptions: dict[str, str] = {}
    section, current = "", ""
    for line in text.splitlines():
        if found := _SECTION.match(line):
            section, current = found[1], ""
        elif not section:
            summary.append(line)
        elif section in ("Args", "Arguments", "Parameters"):
            indented = len(line) - len(line.lstrip())
            if (argument := _ARGUMENT.match(line.strip())) and 0 < indented <= 4:
                current = argument[1]
                descriptions[current] = argument[2]
            elif current and line.strip():
                descriptions[current] = f"{descriptions[current]} {line.strip()}".strip()
    return "\n".join(summary).strip(), descriptions
