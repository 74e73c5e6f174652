"""``@tool``: makes a Tool of a typed function, sync or async."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, overload

from engine.tools.signature import read_signature
from engine.tools.tool import OnInterrupt, Tool


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    timeout: float | None = None,
    on_interrupt: OnInterrupt = "ask",
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    timeout: float | None = None,
    on_interrupt: OnInterrupt = "ask",
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Offer a function to the model: ``@tool`` or ``@tool(read_only=True, timeout=10)``.

    The JSON Schema comes from the signature, the description from the docstring (``Args:`` describes parameters).
    ``read_only``: changes nothing, may run beside others and again after a crash. ``idempotent``: may run again with
    the same ToolContext.idempotency_key. Neither: an effect, run at most once. ``timeout`` in seconds.
    ``on_interrupt``: when a worker died in the middle of an effect, ``ask`` a person or ``fail`` towards the model.

    Raises TypeError or ValueError, in words for the author, when the function cannot be offered.
    """

    def make(function: Callable[..., Any]) -> Tool:
        shown = name if name is not None else str(getattr(function, "__name__", type(function).__name__))
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"tool {shown!r} yields; a tool returns one value")
        signature = read_signature(function)
        return Tool(
            name=shown,
            description=description if description is not None else signature.description,
            input_schema=signature.input_schema,
            function=function,
            read_only=read_only,
            idempotent=idempotent,
            timeout_s=timeout,
            on_interrupt=on_interrupt,
            signature=signature,
        )

    return make if function is None else make(function)
