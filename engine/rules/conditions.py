"""Conditions on one argument, as written under ``when``; pure.

    "prod/*"                    text that matches the glob
    5, true, null               that very value (true is not 1)
    [a, "b*"]                   any of these conditions
    {gt: 1, lte: 100}           all of eq, ne, gt, gte, lt, lte, in, not that are given; eq and in are literal

A condition answers three ways: True, False, or None when it cannot be evaluated (a glob on a number, a comparison on
text). What None means is the rule's business: an allow takes it for no, an ask or a deny for yes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from engine.rules.globs import matches_glob
from engine.yaml_file import Document, Where, describe


class Absent(Enum):
    """What an argument path leads to when it leads to no value."""

    MISSING = "missing"
    MISFIT = "misfit"  # a text or number stands where the path expects a mapping


class Condition(Protocol):
    def holds(self, value: Any) -> bool | None: ...


@dataclass(frozen=True, slots=True)
class Glob:
    pattern: str

    def holds(self, value: Any) -> bool | None:
        if value is Absent.MISSING:
            return False
        return matches_glob(self.pattern, value) if isinstance(value, str) else None


@dataclass(frozen=True, slots=True)
class OneOf:
    """Literally one of these scalars."""

    values: tuple[Any, ...]

    def holds(self, value: Any) -> bool | None:
        if value is Absent.MISFIT:
            return None
        return any(_is_same(value, one) for one in self.values)


@dataclass(frozen=True, slots=True)
class Compare:
    compare: Callable[[Any, Any], bool]
    bound: int | float

    def holds(self, value: Any) -> bool | None:
        if value is Absent.MISSING:
            return False
        if not _is_number(value) or (isinstance(value, float) and math.isnan(value)):
            return None
        return self.compare(value, self.bound)


@dataclass(frozen=True, slots=True)
class Not:
    condition: Condition

    def holds(self, value: Any) -> bool | None:
        inner = self.condition.holds(value)
        return None if inner is None else not inner


@dataclass(frozen=True, slots=True)
class AnyOf:
    conditions: tuple[Condition, ...]

    def holds(self, value: Any) -> bool | None:
        found = [condition.holds(value) for condition in self.conditions]
        return True if True in found else None if None in found else False


@dataclass(frozen=True, slots=True)
class AllOf:
    conditions: tuple[Condition, ...]

    def holds(self, value: Any) -> bool | None:
        found = [condition.holds(value) for condition in self.conditions]
        return False if False in found else None if None in found else True


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
_WORDS = ("eq", "ne", *_COMPARISONS, "in", "not")


def read_condition(document: Document, where: Where, written: Any) -> Condition:
    """The condition written at ``where``. Raises ConfigurationError with file and line."""
    if isinstance(written, str):
        return Glob(written)
    if isinstance(written, list):
        if not written:
            raise document.problem(where, "found an empty list, expected at least one condition")
        return AnyOf(tuple(read_condition(document, (*where, n), one) for n, one in enumerate(written)))
    if isinstance(written, dict):
        if not written:
            raise document.problem(where, f"found an empty mapping, expected one of {', '.join(_WORDS)}")
        return AllOf(tuple(_read_operator(document, (*where, word), word, written[word]) for word in written))
    return OneOf((written,))


def _read_operator(document: Document, where: Where, word: str, written: Any) -> Condition:
    if word in _COMPARISONS:
        if not _is_number(written):
            raise document.problem(where, f"found {describe(written)} after {word!r}, expected a number")
        return Compare(_COMPARISONS[word], written)
    match word:
        case "eq":
            return OneOf((_scalar(document, where, written),))
        case "ne":
            return Not(OneOf((_scalar(document, where, written),)))
        case "in":
            if not isinstance(written, list) or not written:
                raise document.problem(where, f"found {describe(written)} after 'in', expected a list of values")
            return OneOf(tuple(_scalar(document, (*where, n), one) for n, one in enumerate(written)))
        case "not":
            return Not(read_condition(document, where, written))
    hint = "write a nested argument as a dotted path, like order.id"
    raise document.problem(where, f"found {word!r}, expected one of {', '.join(_WORDS)} ({hint})")


def _scalar(document: Document, where: Where, written: Any) -> Any:
    if isinstance(written, list | dict):
        raise document.problem(where, f"found {describe(written)}, expected text, a number, true, false or null")
    return written


def values_at(arguments: Any, path: Sequence[str]) -> Iterator[Any]:
    """Every value that a dotted path leads to, lists spread out; an Absent where it leads nowhere.

    A key that itself contains dots is followed too: otherwise a call could hide ``order: {id: ...}`` behind an
    extra argument called ``order.id``.
    """
    if isinstance(arguments, list):
        if path and path[0].isdecimal() and len(path[0]) < 10:
            index = int(path[0])
            yield from values_at(arguments[index], path[1:]) if index < len(arguments) else (Absent.MISSING,)
        else:
            for item in arguments:
                yield from values_at(item, path)
    elif not path:
        yield arguments
    elif isinstance(arguments, dict):
        keys = [(".".join(path[:n]), n) for n in range(1, len(path) + 1)]
        present = [(key, n) for key, n in keys if key in arguments]
        for key, n in present:
            yield from values_at(arguments[key], path[n:])
        if not present:
            yield Absent.MISSING
    else:
        yield Absent.MISFIT if arguments is not None else Absent.MISSING


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_same(found: Any, expected: Any) -> bool:
    if _is_number(found) and _is_number(expected):
        return bool(found == expected)
    return type(found) is type(expected) and bool(found == expected)
