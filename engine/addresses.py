"""Network addresses: which of them never leave this machine."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Whether ``host``, a name or an address without port, is this machine and reached by no other.

    Names are not looked up: only ``localhost`` and names below it count.
    """
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def is_cleartext(url: str) -> bool:
    """Whether what is sent to ``url`` crosses a network unencrypted: http to another machine."""
    parts = urlsplit(url)
    return parts.scheme.lower() == "http" and not is_loopback(parts.hostname or "")
