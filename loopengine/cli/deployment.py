"""What a command works with: the settings, and the store that is running for its length.

Embedded or elsewhere, the rest of the command line sees one URL. `.env` is put into the environment here, because the
SDKs of the model providers read their keys there.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from dotenv import load_dotenv
from pydantic import ValidationError
from redis.exceptions import RedisError

from engine.settings import Settings
from loopengine.cli.options import Where
from loopengine.logs import configure_logging
from protocol.errors import ConfigurationError, StoreUnavailable

if TYPE_CHECKING:
    from engine.runtime import Runtime
    from loopengine.embedded import EmbeddedStore

EMBEDDED_FOLDER = Path(".loopengine")


@dataclass(frozen=True, slots=True)
class Deployment:
    """``embedded`` is None when the store is somebody else's."""

    settings: Settings
    url: str
    embedded: EmbeddedStore | None


def load_settings(where: Where, *, log_level: str | None = None, **replaced: object) -> Settings:
    """Settings of this directory with what was typed on top; logging follows them.

    ``log_level`` is the default of a command that talks with a person. Raises ConfigurationError."""
    try:
        load_dotenv(Path(".env"), override=False, encoding="utf-8")
        settings = Settings()
    except UnicodeDecodeError as error:
        raise ConfigurationError(".env", None, f"not UTF-8 text (byte {error.start})") from error
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise ConfigurationError(name, None, f"{first['msg']}, found {first['input']!r}") from error
    typed: dict[str, object] = {"tenant": where.tenant, "environment": where.environment, **replaced}
    if log_level is not None and "log_level" not in settings.model_fields_set:
        typed["log_level"] = log_level
    settings = settings.model_copy(update={name: value for name, value in typed.items() if value is not None})
    configure_logging(settings.log_level)
    return settings


@contextlib.contextmanager
def deployed(settings: Settings, redis_url: str | None) -> Iterator[Deployment]:
    """The store of this directory, running; an embedded one is started again if its starter ends before this does.

    StoreUnavailable that comes out of the block names the URL. Raises OperatorError where no store can run."""
    from loopengine.embedded import ensure_embedded, outside_url

    url = outside_url(redis_url, settings)
    if url is not None:
        with naming_the_store(url):
            yield Deployment(settings, url, None)
        return
    store = ensure_embedded(EMBEDDED_FOLDER)
    store.keep()
    try:
        with naming_the_store(store.url):
            yield Deployment(settings, store.url, store)
    finally:
        store.stop()


@contextlib.asynccontextmanager
async def opened(deployment: Deployment) -> AsyncIterator[Runtime]:
    from engine.runtime import open_runtime

    runtime = await open_runtime(deployment.settings, redis_url=deployment.url)
    try:
        yield runtime
    finally:
        await runtime.aclose()


@contextlib.contextmanager
def naming_the_store(url: str) -> Iterator[None]:
    try:
        yield
    except (StoreUnavailable, RedisError, ConnectionError) as error:
        raise StoreUnavailable(f"the store at {without_password(url)} cannot be used: {error}") from error
    except ValueError as error:
        if "URL" not in str(error):
            raise
        raise ConfigurationError("REDIS_URL", None, f"{without_password(url)}: {error}") from error


def without_password(url: str) -> str:
    parts = urlsplit(url)
    if parts.password is None:
        return url
    user, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}:***@{host}"))
