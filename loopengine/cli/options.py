"""Options that several commands share, and the value they become: where to look, and for whom."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Where:
    """As typed; None: what the settings say."""

    redis_url: str | None = None
    tenant: str | None = None
    environment: str | None = None

    def command(self, *words: str) -> str:
        """A command line for the same place, to be copied into a shell."""
        options = [("--tenant", self.tenant), ("--redis-url", self.redis_url)]
        typed = [word for name, value in options if value is not None for word in (name, value)]
        return shlex.join(["loopengine", *words, *typed])


def _not_blank(_ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and not value.strip():
        raise click.BadParameter("must not be blank", param=param)
    return value


redis_url_option = click.option(
    "--redis-url",
    metavar="URL",
    callback=_not_blank,
    help="Redis or Valkey to use, like redis://localhost:6379/0.  [default: REDIS_URL, else ./.loopengine]",
)
tenant_option = click.option(
    "--tenant", metavar="T", callback=_not_blank, help="Whose turns.  [default: LOOPENGINE_TENANT, else default]"
)
env_option = click.option(
    "--env",
    "environment",
    metavar="E",
    callback=_not_blank,
    help="Environment that the rules see.  [default: LOOPENGINE_ENV, else production]",
)


def json_option(what: str) -> Callable[[F], F]:
    return click.option("--json", "as_json", is_flag=True, help=f"Print {what} as JSON, one object per line.")


def place_options(function: F) -> F:
    """``tenant`` and ``redis_url``."""
    return tenant_option(redis_url_option(function))
