"""Network addresses: which stay on this machine, and which may get a credential."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

ALLOWED_VARIABLE = "GRUBRICS_ALLOW_HTTP"


def is_loopback(host: str) -> bool:
    """Whether ``host``, a name or an address without port, can be reached from this machine only.

    Names are not resolved: only ``localhost`` and names below it count.
    """
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def is_cleartext(url: str, env: Mapping[str, str]) -> bool:
    """Whether a credential sent to ``url`` could be read in transit: http to another machine.

    ``GRUBRICS_ALLOW_HTTP`` in ``env`` lists hosts in a trusted network, separated by commas.
    """
    try:
        parts = urlsplit(url.strip())
        host = (parts.hostname or "").lower()
    except ValueError:  # not an address
        return False
    allowed = {name.strip().lower() for name in env.get(ALLOWED_VARIABLE, "").split(",")}
    return parts.scheme.lower() == "http" and not is_loopback(host) and host not in allowed


def cleartext_complaint(credential: str, url: str, env: Mapping[str, str]) -> str | None:
    """Why the ``credential`` of that name must not be sent to ``url``; None when it may."""
    if not is_cleartext(url, env):
        return None
    host = urlsplit(url.strip()).hostname
    return (
        f"{credential} would be sent unencrypted to {host}: use https, or, on a network "
        f"that you trust, set {ALLOWED_VARIABLE}={host}"
    )
