"""Credentials, shown so that a person recognises them and nobody can use them."""

from __future__ import annotations

import re

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_URL_LOGIN = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_URL_SECRET = re.compile(r"(?i)([?&](?:sig|key|api[-_]?key|token|code|secret)=)[^&#\s]+")
_REVEALING_LENGTH = 16


def mask(secret: str) -> str:
    """``sk-…a1b2``: both ends of a long secret, nothing of a short one."""
    if len(secret) < _REVEALING_LENGTH:
        return "…"
    return f"{secret[:3]}…{secret[-4:]}"


def redact(text: str, secret: str) -> str:
    """``text`` with ``secret`` masked wherever it occurs: servers quote keys in their errors."""
    return text.replace(secret, mask(secret)) if secret else text


def mask_url(text: str) -> str:
    """``text`` without the logins and the secret query values of the URLs in it."""
    return _URL_SECRET.sub(r"\1…", _URL_LOGIN.sub("…", text))


def shown(name: str, value: str) -> str:
    """The value of an environment variable, masked when its name or form says it is a secret."""
    return mask(value) if _SECRET_NAME.search(name) else mask_url(value)
