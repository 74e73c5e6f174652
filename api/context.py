"""What every route works with: the runtime, the settings, and the server's way to say farewell.

One value per application, made by ``create_app``. It is the whole state of an API process.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from starlette.requests import Request

from api.audience import Farewell
from engine.runtime import Runtime
from engine.settings import Settings


@dataclass(frozen=True, slots=True)
class Context:
    runtime: Runtime
    settings: Settings
    farewell: Farewell = field(default_factory=Farewell)


def context_of(request: Request) -> Context:
    return cast(Context, request.app.state.context)
