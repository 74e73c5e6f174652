"""URLs of this API, and file paths as an answer may show them."""

from __future__ import annotations

import os
import re
from urllib.parse import quote

from starlette.requests import Request

from api.context import context_of

_ABSOLUTE = re.compile(r"(?<![\w./~-])/(?:[^\s/:'\"]+/)+([^\s/:'\"]+)")


def status_url(agent: str, session_id: str) -> str:
    return f"/agents/{quote(agent, safe='')}/sessions/{quote(session_id, safe='')}"


def without_outside_paths(text: str, request: Request) -> str:
    """Files of the agents' folder relative to it; of any other absolute path only the last name."""
    folder = context_of(request).settings.agents_dir
    for root in {str(folder), os.path.abspath(folder), os.path.realpath(folder)}:
        if os.path.isabs(root):
            text = text.replace(root.rstrip("/") + "/", "")
    return _ABSOLUTE.sub(r"\1", text)
