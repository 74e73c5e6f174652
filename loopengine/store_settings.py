"""What a Redis or Valkey is set to that decides whether turns survive in it. Reads only; changes no setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ResponseError
from redis.retry import Retry

from protocol.errors import StoreUnsuitable

OLDEST_REDIS = (7, 0)


@dataclass(frozen=True, slots=True)
class Finding:
    """``is_fatal``: turns would be lost while everything works as set up."""

    is_fatal: bool
    problem: str


def inspect_store(url: str) -> list[Finding]:
    """Nothing found: fit for production. Raises redis' errors when it cannot be asked, ValueError for a bad URL."""
    with Redis.from_url(
        url, socket_timeout=5.0, socket_connect_timeout=5.0, decode_responses=True, retry=Retry(NoBackoff(), 0)
    ) as redis:
        findings = _findings_of_settings(_settings(redis))
        version = str(redis.info("server").get("redis_version", "0.0"))
    # Valkey reports the Redis version that it is compatible with.
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_REDIS:
        findings.append(Finding(True, f"it is Redis {version}: Redis 7.0 or Valkey 7.2 is needed at least"))
    return findings


def refuse_unsuitable(findings: list[Finding]) -> None:
    """Raises StoreUnsuitable for the first fatal finding."""
    for finding in findings:
        if finding.is_fatal:
            raise StoreUnsuitable(f"the store is not fit for turns: {finding.problem}")


def _settings(redis: Redis) -> dict[Any, Any] | None:
    try:
        return redis.config_get("maxmemory-policy", "appendonly", "appendfsync")
    except ResponseError:
        return None  # many hosted ones do not let clients look


def _findings_of_settings(settings: dict[Any, Any] | None) -> list[Finding]:
    if settings is None:
        return [
            Finding(False, "CONFIG GET is not allowed: make sure of maxmemory-policy noeviction and of AOF yourself")
        ]
    findings = []
    policy = settings.get("maxmemory-policy", "noeviction")
    if policy != "noeviction":
        words = f"maxmemory-policy is {policy}, which throws turns away when memory is short: set it to noeviction"
        findings.append(Finding(True, words))
    if settings.get("appendonly", "yes") != "yes":
        findings.append(Finding(False, "appendonly is off: a restart forgets turns; set appendonly yes"))
    elif settings.get("appendfsync", "always") == "no":
        findings.append(Finding(False, "appendfsync is no: a lost machine forgets turns; set it to always or everysec"))
    return findings
