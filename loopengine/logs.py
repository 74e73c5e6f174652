"""Logs: structlog and the standard library's both to stderr, one line per entry. stdout is never a log's."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

from protocol.errors import ConfigurationError

LEVELS = ("debug", "info", "warning", "error", "critical")


def configure_logging(level: str) -> None:
    """For the whole process. Raises ConfigurationError for a level that does not exist."""
    name = level.lower()
    if name not in LEVELS:
        raise ConfigurationError("LOOPENGINE_LOG_LEVEL", None, f"found {level!r}, expected one of {', '.join(LEVELS)}")
    number = logging.getLevelNamesMapping()[name.upper()]
    # Libraries talk about their own affairs at info; a person who runs agents wants their warnings.
    logging.basicConfig(
        stream=sys.stderr, level=max(number, logging.WARNING), format="%(name)s: %(message)s", force=True
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback, sort_keys=False
            ),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=_stderr_logger,
        cache_logger_on_first_use=True,
    )


def _stderr_logger(*_args: Any) -> structlog.PrintLogger:
    return structlog.PrintLogger(sys.stderr)
