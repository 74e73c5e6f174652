"""JSON as real providers read it: written apart from the product's own reader, so that one checks the other."""

from __future__ import annotations

import json
from typing import Any, NoReturn


def strict_loads(data: bytes | str) -> Any:
    """Raises ValueError for what is not UTF-8 or not strict JSON: NaN, doubled keys, halves of surrogate pairs."""
    text = data.decode("utf-8") if isinstance(data, bytes) else data
    value = json.loads(text, parse_constant=_refuse, object_pairs_hook=_object)
    json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key occurs twice")
    return value
