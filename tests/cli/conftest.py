from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.shell import Shell


@pytest.fixture
def shell(project: Path, redis_url: str) -> Shell:
    """In a project with the example agents; REDIS_URL is the test's empty Valkey."""
    return Shell(project, {"REDIS_URL": redis_url})


@pytest.fixture
def lone_shell(project: Path) -> Shell:
    """In a project with the example agents and nothing else: no Redis is configured."""
    return Shell(project)
