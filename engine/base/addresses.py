"""Network addresses: which of them never leave this machine."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

ALLOWED_VARIABLE = "GRUBRICS_ALLOW_HTTP"


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


def is_cleartext(url: str, env: Mapping[str, str]) -> bool:
    """Whether a credential sent to ``url`` could be read on its way: http to another machine.

    ``GRUBRICS_ALLOW_HTTP`` of ``env`` names, with commas, hosts behind a network that is trusted.
    """
    try:
        parts = urlsplit(url.strip())
        host = (parts.hostname or "").lower()
    except ValueError:  # no address that anything could be sent to
        return False
    allowed = {name.strip().lower() for name in env.get(ALLOWED_VARIABLE, "").split(",")}
    return parts.scheme.lower() == "http" and not is_loopback(host) and host not in allowed


def cleartext_complaint(what: str, url: str, env: Mapping[str, str]) -> str | None:
    """Why ``what``, a credential, must not be sent to ``url``; None when it may."""
    if not is_cleartext(url, env):
        return None
    host = urlsplit(url.strip()).hostname
    return (
        f"{what} would cross the network in the clear to {host}: use https, or, on a network that "
        f"you trust, set {ALLOWED_VARIABLE}={host}"
    )
