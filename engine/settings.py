"""Every environment variable the product reads, with unit and default. Read once, at the edge of a process.

Model keys and base URLs are the exception: they are the SDKs' own variables (ANTHROPIC_API_KEY,
ANTHROPIC_BASE_URL, OPENAI_API_KEY, OPENAI_BASE_URL) and are read by the SDKs, never stored here.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_file=".env", extra="ignore", frozen=True, env_ignore_empty=True)

    redis_url: str | None = Field(None, validation_alias="REDIS_URL")
    """Redis or Valkey that holds the truth; None: an embedded Valkey in ``.loopengine/``."""
    rq_url: str | None = Field(None, validation_alias="LOOPENGINE_RQ_URL")
    """Redis for RQ's wake-up jobs only; None: the same one."""
    partitions: int = Field(1, ge=1, le=1024, validation_alias="LOOPENGINE_PARTITIONS")
    """Fixed at first start: a deployment that was started with another number is refused."""
    agents_dir: Path = Field(Path("agents"), validation_alias="LOOPENGINE_AGENTS_DIR")
    tenant: str = Field("default", min_length=1, validation_alias="LOOPENGINE_TENANT")
    environment: str = Field("production", min_length=1, validation_alias="LOOPENGINE_ENV")
    host: str = Field("127.0.0.1", validation_alias="LOOPENGINE_HOST")
    port: int = Field(8787, ge=0, le=65535, validation_alias="LOOPENGINE_PORT")
    provider: str | None = Field(None, validation_alias="LOOPENGINE_PROVIDER")
    """Replaces the provider of every agent's model (with LOOPENGINE_MODEL): try a real model without editing."""
    model: str | None = Field(None, validation_alias="LOOPENGINE_MODEL")
    concurrency: int = Field(100, ge=1, validation_alias="LOOPENGINE_CONCURRENCY")
    """Turns that one worker process runs at once."""
    processes: int = Field(1, ge=1, validation_alias="LOOPENGINE_PROCESSES")
    queue: str = Field("loopengine", validation_alias="LOOPENGINE_QUEUE")
    """Name of the RQ queue that carries the wake-up jobs."""
    lease_s: float = Field(5.0, gt=0, validation_alias="LOOPENGINE_LEASE_SECONDS")
    """How long a worker's counter must stand still, watched without interruption, until it counts as dead."""
    sweep_s: float = Field(1.0, gt=0, validation_alias="LOOPENGINE_SWEEP_SECONDS")
    drain_s: float = Field(20.0, gt=0, validation_alias="LOOPENGINE_DRAIN_SECONDS")
    """After SIGTERM: how long a running step may take before its turn is left to the others."""
    retention_s: int = Field(7 * 24 * 3600, ge=1, validation_alias="LOOPENGINE_RETENTION_SECONDS")
    """How long a finished turn and its events stay."""
    approval_expiry_s: float | None = Field(None, gt=0, validation_alias="LOOPENGINE_APPROVAL_EXPIRY_SECONDS")
    """None: an approval waits for ever."""
    idempotency_s: int = Field(24 * 3600, ge=1, validation_alias="LOOPENGINE_IDEMPOTENCY_SECONDS")
    max_running_per_tenant: int = Field(0, ge=0, validation_alias="LOOPENGINE_MAX_RUNNING_PER_TENANT")
    """0: no limit."""
    max_waiting_per_session: int = Field(100, ge=0, validation_alias="LOOPENGINE_MAX_WAITING_PER_SESSION")
    max_message_bytes: int = Field(1_000_000, ge=1, validation_alias="LOOPENGINE_MAX_MESSAGE_BYTES")
    wait_s: float = Field(60.0, ge=0, validation_alias="LOOPENGINE_WAIT_SECONDS")
    """How long POST .../messages waits for the turn before it answers 202 ``type: running``."""
    heartbeat_s: float = Field(15.0, gt=0, validation_alias="LOOPENGINE_HEARTBEAT_SECONDS")
    """Pause after which an idle event stream gets a comment line."""
    model_idle_s: float = Field(120.0, gt=0, validation_alias="LOOPENGINE_MODEL_IDLE_SECONDS")
    """A model stream that says nothing for this long counts as cut."""
    tool_timeout_s: float = Field(300.0, gt=0, validation_alias="LOOPENGINE_TOOL_TIMEOUT_SECONDS")
    """For tools that set no timeout of their own."""
    turn_timeout_s: float = Field(3600.0, gt=0, validation_alias="LOOPENGINE_TURN_TIMEOUT_SECONDS")
    """Running time of one turn, for agents that set none of their own; parked and queued time does not count."""
    blocked_s: float = Field(30.0, ge=5, validation_alias="LOOPENGINE_BLOCKED_SECONDS")
    """A worker process whose event loop stands still for this long is killed."""
    log_level: str = Field("info", validation_alias="LOOPENGINE_LOG_LEVEL")
