"""Which host names are this machine's own."""

from __future__ import annotations

import ipaddress

WILDCARDS = frozenset({"", "0.0.0.0", "::"})


def host_of(header: str) -> str:
    """The host in a Host header, in lower case, without port, brackets or the root's dot."""
    host = header.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].rstrip(".")


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
