"""What HTTP requests carry, as strict models, and how a body's bytes become one.

Unknown fields, wrong types and nulls are refused, never guessed at. Who may send a body and what it does is not
decided here; the answers are in ``protocol.answers``.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field, ValidationError
from pydantic_core import PydanticCustomError

from protocol.errors import InvalidRequest
from protocol.json_text import loads_strict
from protocol.shapes import JsonObject, Maybe, Wire

MAX_ANSWER_CHARS = 20_000
MAX_REASON_CHARS = 4_000
MAX_SESSION_ID_CHARS = 256

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# People write paragraphs and paste tables: line breaks and tabs are text, the other control characters are not.
_CONTROL_IN_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")

BodyT = TypeVar("BodyT", bound=Wire)


def _not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "must not be empty or blank")
    return text


def _one_line(text: str) -> str:
    if found := _CONTROL.search(text):
        raise PydanticCustomError(
            "control_character",
            "must not hold control characters, found {code} at position {position}",
            {"code": f"U+{ord(found[0]):04X}", "position": found.start()},
        )
    return text


def _plain_text(text: str) -> str:
    if found := _CONTROL_IN_TEXT.search(text):
        raise PydanticCustomError(
            "control_character",
            "must not hold control characters but tab and line breaks, found {code} at position {position}",
            {"code": f"U+{ord(found[0]):04X}", "position": found.start()},
        )
    return text


SessionId = Annotated[str, Field(min_length=1, max_length=MAX_SESSION_ID_CHARS), AfterValidator(_one_line)]
Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_one_line), AfterValidator(_not_blank)]
Digest = Annotated[str, Field(min_length=1, max_length=128)]


class SendMessage(Wire):
    """Body of ``POST /agents/{agent}/messages`` and ``.../messages/stream``."""

    message: Annotated[str, AfterValidator(_not_blank)]
    session_id: Maybe[SessionId] = None
    """None: a new session."""
    context: Maybe[JsonObject] = None
    """Handed to the agent's ``session_id_for``; the model never sees it."""
    on_busy: Literal["queue", "reject", "interrupt"] = "queue"


class ApproveBody(Wire):
    """Body of ``POST /approvals/{id}/approve``; may be empty."""

    digest: Maybe[Digest] = None
    """Digest of what was shown. When given, anything else that is pending is not approved (409)."""
    by: Maybe[Name] = None
    """Who decides, for the record. Counts only where no authentication says it."""


class DecideBody(ApproveBody):
    """Body of ``POST /approvals/{id}/deny``; may be empty."""

    reason: Maybe[Annotated[str, Field(max_length=MAX_REASON_CHARS), AfterValidator(_plain_text)]] = None
    """Told to the model."""


class AnswerBody(Wire):
    """Body of ``POST /questions/{id}/answer``: the answer reaches the model exactly as it is."""

    answer: Annotated[
        str,
        Field(min_length=1, max_length=MAX_ANSWER_CHARS),
        AfterValidator(_not_blank),
        AfterValidator(_plain_text),
    ]


def read_body(model: type[BodyT], data: bytes, *, may_be_empty: bool = False) -> BodyT:
    """The body as a model. MalformedRequest (400) when it is not JSON, InvalidRequest (422) naming each bad field."""
    value = {} if may_be_empty and not data.strip() else loads_strict(data)
    if not isinstance(value, dict):
        raise InvalidRequest("the body must be a JSON object")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise InvalidRequest(_problems(model, error)) from None


def _problems(model: type[Wire], error: ValidationError) -> str:
    # Neither values nor unlimited lists go back: a body may be large, and it may hold what logs must not.
    faults = error.errors(include_url=False, include_input=False)
    told = [_problem(model, dict(fault)) for fault in faults[:5]]
    if len(faults) > len(told):
        told.append(f"and {len(faults) - len(told)} more")
    return "; ".join(told)


def _problem(model: type[Wire], fault: dict[str, Any]) -> str:
    field = ".".join(str(part) for part in fault["loc"])[:80]
    if fault["type"] == "extra_forbidden":
        known = ", ".join(info.alias or name for name, info in model.model_fields.items())
        return f"{field!r} is not a field of this request (known: {known})"
    if fault["type"] == "missing":
        return f"{field!r} is missing"
    return f"{field!r}: {fault['msg'][0].lower()}{fault['msg'][1:]}"
