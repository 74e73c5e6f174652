"""Who sends a request. The one place that knows, so that authentication is added here and nowhere else.

Tenant and roles never come from a body. Without authentication everybody is the configured tenant and may do
everything, which is why ``api.serve`` then binds loopback only and ``api.guard`` checks Host and Origin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from starlette.requests import Request

from api.context import context_of

Role = Literal["caller", "approver", "admin"]
EVERY_ROLE: frozenset[Role] = frozenset({"caller", "approver", "admin"})
ANONYMOUS = "anonymous"


@dataclass(frozen=True, slots=True)
class Identity:
    """``authenticated`` False: ``name`` is a placeholder, and a decision may carry a name of its own."""

    tenant: str
    name: str
    roles: frozenset[Role]
    authenticated: bool


def identify(request: Request) -> Identity:
    return Identity(context_of(request).settings.tenant, ANONYMOUS, EVERY_ROLE, authenticated=False)


def decider(identity: Identity, claimed: str | None) -> str:
    """The name a decision is recorded under. What the body claims counts only where nothing better is known."""
    return identity.name if identity.authenticated or claimed is None else claimed
