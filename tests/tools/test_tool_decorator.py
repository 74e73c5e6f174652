"""A typed function becomes a tool: what the model sees, and what an author is told about a mistake."""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from engine.tools.context import ToolContext
from engine.tools.decorator import tool
from tests.tools.contexts import a_context


class Item(BaseModel):
    sku: str
    count: int = 1


class Address(TypedDict):
    street: str


@tool(read_only=True, timeout=2.5)
def search(
    query: str,
    context: ToolContext,
    limit: Annotated[int, Field(ge=1, le=50)] = 10,
    kind: Literal["book", "film"] | None = None,
) -> list[str]:
    """Search the catalogue.

    Finds books and films.

    Args:
        query: What to look for,
            in any language.
        limit (int): How many at most.

    Returns:
        Titles.
    """
    return [query] * limit


def test_the_schema_comes_from_the_signature_and_the_docstring() -> None:
    assert search.name == "search"
    assert search.description == "Search the catalogue.\n\nFinds books and films."
    assert search.input_schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for, in any language."},
            "limit": {
                "type": "integer", "minimum": 1, "maximum": 50, "default": 10, "description": "How many at most.",
            },
            "kind": {"anyOf": [{"enum": ["book", "film"], "type": "string"}, {"type": "null"}], "default": None},
        },
        "required": ["query"],
        "additionalProperties": False,
    }  # fmt: skip


def test_the_hints_decide_the_kind() -> None:
    assert (search.kind, search.timeout_s, search.on_interrupt) == ("read", 2.5, "ask")


def test_a_bare_decorator_makes_an_effect_without_arguments() -> None:
    @tool
    def wipe() -> str:
        return "wiped"

    assert (wipe.kind, wipe.description) == ("effect", "")
    assert wipe.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert wipe() == "wiped"


def test_name_and_description_can_be_given() -> None:
    @tool(name="other-name", description="Other.", idempotent=True, on_interrupt="fail")
    def function() -> None:
        """Mine."""

    assert (function.name, function.description) == ("other-name", "Other.")
    assert (function.kind, function.on_interrupt) == ("idempotent", "fail")


def test_parameters_may_have_any_name_and_an_alias() -> None:
    @tool
    def odd(schema: str, model_config: int, _private: bool, json: Annotated[str, Field(alias="class")]) -> None:
        """Odd names."""

    assert list(odd.input_schema["properties"]) == ["schema", "model_config", "_private", "class"]
    args = {"schema": "s", "model_config": 1, "_private": True, "class": "c"}
    assert odd.problem_with(args) is None
    assert odd.signature is not None
    bound = odd.signature.bind(args, a_context())
    assert bound == {"schema": "s", "model_config": 1, "_private": True, "json": "c"}


def test_arguments_become_the_types_of_the_signature() -> None:
    @tool
    def order(items: list[Item], when: datetime.date, to: Address, context: ToolContext) -> None:
        """Order."""

    args = {"items": [{"sku": "A"}], "when": "2026-11-30", "to": {"street": "Main"}}
    assert order.problem_with(args) is None
    assert order.signature is not None
    context = a_context()
    assert order.signature.bind(args, context) == {
        "items": [Item(sku="A")],
        "when": datetime.date(2026, 11, 30),
        "to": {"street": "Main"},
        "context": context,
    }


PROBLEMS: list[tuple[dict[str, Any], str]] = [
    ({}, "argument 'query' is missing (expected string)"),
    ({"query": 5}, "argument 'query': expected string, got number"),
    ({"query": None}, "argument 'query': expected string, got null"),
    ({"query": "x", "limit": "10"}, "argument 'limit': expected integer, got string"),
    ({"query": "x", "limit": 0}, "argument 'limit': 0 is less than the minimum of 1"),
    ({"query": "x", "context": {}}, "unknown argument 'context' (known: query, limit, kind)"),
    ({"query": "x", "kind": 5}, "argument 'kind': "),
]


@pytest.mark.parametrize(("args", "problem"), PROBLEMS)
def test_a_wrong_argument_is_named_with_what_was_expected(args: dict[str, Any], problem: str) -> None:
    assert problem in (search.problem_with(args) or "")


def test_right_arguments_have_no_problem() -> None:
    assert search.problem_with({"query": "x", "limit": 3, "kind": "book"}) is None


def test_a_value_of_the_right_json_type_that_the_python_type_refuses_is_a_problem() -> None:
    @tool
    def on(day: datetime.date) -> None:
        """On a day."""

    assert "argument 'day'" in (on.problem_with({"day": "2026-02-30"}) or "")


def test_many_problems_are_counted_not_listed() -> None:
    problem = search.problem_with({f"x{n}": "y" * 1000 for n in range(500)}) or ""
    assert len(problem) < 600


def test_left_out_arguments_are_judged_at_their_defaults() -> None:
    assert search.with_defaults({"query": "x"}) == {"query": "x", "limit": 10, "kind": None}
    assert search.with_defaults({"query": "x", "limit": 2})["limit"] == 2


def takes_many(*names: str) -> None: ...
def takes_any(**names: str) -> None: ...
def takes_unnamed(name: str, /) -> None: ...
def takes_untyped(name) -> None: ...  # type: ignore[no-untyped-def]
def yields() -> Any:
    yield 1


class Opaque:
    pass


def takes_opaque(name: Opaque) -> None: ...


@pytest.mark.parametrize("function", [takes_many, takes_any, takes_unnamed, takes_untyped, yields, takes_opaque])
def test_a_function_that_no_model_could_call_is_refused_in_words_for_its_author(function: Any) -> None:
    with pytest.raises(TypeError, match=f"tool '{function.__name__}'"):
        tool(function)


@pytest.mark.parametrize("name", ["", "two words", "a" * 65, "dot.ted", "na\u00efve", "new\n"])
def test_a_name_that_model_providers_refuse_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="the tool name"):
        tool(name=name)(yields_nothing)


def yields_nothing() -> None: ...


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan")])
def test_a_timeout_that_is_no_time_is_refused(timeout: float) -> None:
    with pytest.raises(ValueError, match="expected seconds above 0"):
        tool(timeout=timeout)(yields_nothing)
