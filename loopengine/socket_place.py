"""Where the embedded store's socket goes: into its folder, or, because the path of a unix socket must be short, into a
private directory of this user.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from pathlib import Path

# sun_path holds 104 bytes on macOS and 108 on Linux, both with the closing NUL.
_MAX_BYTES = 103
_NAME = "valkey.sock"


def socket_path(folder: Path, last_used: Path | None) -> Path | None:
    """The path to bind; None if no short private directory can be had. ``last_used`` is kept where it will do, so
    that commands with another environment find the same place."""
    inside = folder / _NAME
    if _fits(inside):
        return inside
    label = f"loopengine-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]}"
    bases = (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp")
    places = [last_used.parent] if last_used else []
    places += [Path(base) / label for base in bases if base]
    return next((place / _NAME for place in places if _fits(place / _NAME) and _is_private(place)), None)


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) <= _MAX_BYTES


def _is_private(place: Path) -> bool:
    """Create ``place`` for this user only. One that somebody else made beforehand is not used."""
    with contextlib.suppress(OSError):
        with contextlib.suppress(FileExistsError):
            place.mkdir(mode=0o700)
        found = place.lstat()
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return False
