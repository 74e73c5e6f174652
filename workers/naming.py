"""Names of workers. A name stands for one life of one process, so that a dead one's turns can be told apart."""

from __future__ import annotations

import os
import secrets
import socket


def new_worker_name() -> str:
    """Never used before by any process."""
    return f"{socket.gethostname()}.{os.getpid()}.{secrets.token_hex(4)}"
