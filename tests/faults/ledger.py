"""What happened outside the store: a file to which model and tools write before anything else, and fsync.

It is the only witness of an effect that a killed worker could not put on record.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

Line = dict[str, Any]


class Ledger:
    def __init__(self, path: Path, *, sync: bool = True) -> None:
        self.path = path
        self._sync = sync

    def write(self, **line: Any) -> None:
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, (json.dumps(line) + "\n").encode())
            if self._sync:
                os.fsync(file)
        finally:
            os.close(file)

    def lines(self) -> list[Line]:
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def once(self, name: str) -> bool:
        """True for the first caller of all processes that asks for ``name``."""
        try:
            os.close(os.open(self.path.with_name(f"once-{name}"), os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            return False
        return True
