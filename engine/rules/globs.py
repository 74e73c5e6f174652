"""Globs over text: ``*`` (anything, a slash and a newline too), ``?``, ``[abc]``, ``[!abc]``; case counts."""

from __future__ import annotations

import fnmatch
import re
from functools import lru_cache


@lru_cache(maxsize=4096)
def compile_glob(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))


def matches_glob(pattern: str, text: str) -> bool:
    """Whether the whole text matches. Nothing is normalised: a look-alike letter is another letter."""
    return compile_glob(pattern).match(text) is not None
