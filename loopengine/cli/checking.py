"""``check``: everything that can be known to be wrong before a turn runs, as a list of findings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from redis.exceptions import RedisError

from engine.agents.registry import AgentRegistry
from engine.rules.idle import idle_rules
from engine.settings import Settings
from engine.store.opening import open_store
from loopengine.cli import exits
from loopengine.cli.deployment import deployed, load_settings, without_password
from loopengine.cli.options import Where
from loopengine.cli.queries import code_of
from loopengine.cli.streams import Output, say
from loopengine.store_settings import inspect_store
from protocol.errors import AgentUnavailable, ConfigurationError, LoopEngineError, NotFound, OperatorError


@dataclass(frozen=True, slots=True)
class Found:
    about: str
    text: str
    file: str | None = None
    line: int | None = None
    is_problem: bool = True


def check_everything(agent: str | None, where: Where, output: Output, as_json: bool) -> int:
    """Exit code 1 if there is a problem; warnings alone leave it 0."""
    settings = load_settings(where, log_level="critical")
    registry = AgentRegistry(settings.agents_dir, settings)
    found = list(_agents(registry, agent))
    if agent is None:
        found += _store(settings, where)
    asyncio.run(_print(found, registry.names() if agent is None else [agent], output, as_json))
    return code_of(output, exits.FAILED if any(one.is_problem for one in found) else exits.DONE)


def _agents(registry: AgentRegistry, only: str | None) -> Iterator[Found]:
    if not registry.agents_dir.is_dir():
        words = (
            f"there is no folder {registry.agents_dir}: make one folder per agent in it, or set LOOPENGINE_AGENTS_DIR"
        )
        yield Found("agents", words)
        return
    problems = registry.problems()
    if only is not None:
        try:
            registry.get(only)
        except AgentUnavailable:
            pass  # its problem is listed
        except NotFound as error:
            here = ", ".join(sorted({*registry.names(), *problems})) or "none"
            raise NotFound(f"{error}; those in {registry.agents_dir.absolute()}: {here}") from error
    for name, problem in problems.items():
        if only in (None, name):
            yield _located(f"agent {name}", problem)
    names = registry.names()
    for name in names if only is None else [name for name in names if name == only]:
        yield from _models(registry, name)
    if not names and not problems:
        yield Found("agents", f"there are no agents in {registry.agents_dir}", is_problem=False)


def _models(registry: AgentRegistry, name: str) -> Iterator[Found]:
    loaded = registry.get(name)
    try:
        loaded.model(registry.settings)
    except ConfigurationError as error:
        yield Found(f"agent {name}", error.problem, error.file, error.line)
    except OperatorError as error:
        yield Found(f"agent {name}", str(error))
    if not (loaded.folder / "actauth.yml").exists():
        yield Found(f"agent {name}", f"{loaded.folder}/actauth.yml is missing: every call is denied", is_problem=False)
    for rule, words in idle_rules(loaded.rules.current(), loaded.tools):
        yield Found(f"agent {name}", words, rule.file, rule.line, is_problem=False)


def _located(about: str, problem: str) -> Found:
    """Problems of folders come as `file:line: what`."""
    place, _, words = problem.partition(": ")
    file, colon, line = place.rpartition(":")
    if words and colon and line.isdigit():
        return Found(about, words, file, int(line))
    return Found(about, words, place) if words and "/" in place else Found(about, problem)


def _store(settings: Settings, where: Where) -> Iterator[Found]:
    try:
        with deployed(settings, where.redis_url) as deployment:
            found = [Found("store", one.problem, is_problem=one.is_fatal) for one in inspect_store(deployment.url)]
            asyncio.run(_open(settings, deployment.url))
    except LoopEngineError as error:
        found = [Found("store", str(error))]
    yield from found
    if settings.rq_url is not None:
        try:
            inspect_store(settings.rq_url)
        except (RedisError, ValueError) as error:
            words = f"LOOPENGINE_RQ_URL {without_password(settings.rq_url)} cannot be used: {error}"
            yield Found("store", words)


async def _open(settings: Settings, url: str) -> None:
    store = await open_store(settings, url, patience_s=5.0)
    await store.connection.aclose()


async def _print(found: list[Found], names: list[str], output: Output, as_json: bool) -> None:
    for one in found:
        if as_json:
            await output.record(_record(one))
        else:
            await output.text(f"{'problem' if one.is_problem else 'warning'}: {_sentence(one)}")
    n_problems = sum(one.is_problem for one in found)
    if as_json:
        await output.record({"type": "check:result", "ok": n_problems == 0, "problems": n_problems, "agents": names})
    elif n_problems == 0:
        await output.text(f"ok: {', '.join(names) or 'no agents'}")
    else:
        say(f"{n_problems} problem{'s' if n_problems > 1 else ''}")


def _sentence(one: Found) -> str:
    place = f"{one.file}:{one.line}: " if one.line is not None else f"{one.file}: " if one.file else ""
    return f"{one.about}: {place}{one.text}"


def _record(one: Found) -> dict[str, object]:
    record = {
        "type": "check:problem" if one.is_problem else "check:warning",
        "about": one.about,
        "file": one.file,
        "line": one.line,
        "problem": one.text,
    }
    return {name: value for name, value in record.items() if value is not None}
