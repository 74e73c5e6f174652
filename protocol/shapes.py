"""Building blocks of the wire models: base configuration, optional fields, numbers, moments.

The models accept and refuse exactly what JSON Schema does: no coercion, nothing extra, and an optional field
is either there with a value or not there at all (``null`` is refused). No vocabulary lives here.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, GetCoreSchemaHandler
from pydantic.alias_generators import to_camel
from pydantic.annotated_handlers import GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

T = TypeVar("T")

MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]"
    r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?"
    r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)


class _NotNull:
    """Marks ``X | None`` fields whose ``None`` means absent: ``null`` in the input is an error."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(_refuse_null, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        shape = handler(schema)
        choices: list[dict[str, Any]] = [one for one in shape["anyOf"] if one != {"type": "null"}]
        return choices[0] if len(choices) == 1 else {**shape, "anyOf": choices}


def _refuse_null(value: Any) -> Any:
    if value is None:
        raise PydanticCustomError("null", "null is not a value here: leave the field out instead")
    return value


def _drop_null_defaults(shape: dict[str, Any]) -> None:
    for field in shape.get("properties", {}).values():
        if field.get("default", ...) is None:
            del field["default"]


def _moment(text: str) -> str:
    found = MOMENT.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        date(*map(int, found.groups()))
    except ValueError:
        raise PydanticCustomError("date_time", "not a moment of RFC 3339, such as 2026-08-28T01:34:32.193Z") from None
    return text


def _whole(value: Any) -> Any:
    # JSON Schema knows no int type: 1.0 is an integer there, and some JSON writers send it.
    return int(value) if isinstance(value, float) and value.is_integer() else value


class Wire(BaseModel):
    """Frozen, strict, closed. Fields are snake_case in Python and camelCase on the wire; input uses the wire's."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        allow_inf_nan=False,
        alias_generator=to_camel,
        serialize_by_alias=True,
        json_schema_extra=_drop_null_defaults,
    )

    def to_dict(self) -> dict[str, Any]:
        """The JSON object as it travels; absent fields stay absent, nulls inside ``args`` stay null."""
        return self.model_dump(exclude_unset=True)


Maybe = Annotated[T | None, _NotNull()]
Number = int | float
Count = Annotated[int, Field(ge=1), BeforeValidator(_whole)]
Moment = Annotated[str, AfterValidator(_moment), Field(json_schema_extra={"format": "date-time"})]
JsonObject = dict[str, Any]
