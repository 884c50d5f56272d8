"""Credentials, shown so that a person recognises them and nobody can use them."""

from __future__ import annotations

import re

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|WEBHOOK", re.IGNORECASE)
_URL_LOGIN = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_URL_SECRET = re.compile(
    r"(?i)([?&#;](?:[\w.-]*(?:key|token|secret|signature|password|passwd)|sig|code|pwd|pass|jwt)=)"
    r"[^&#;\s]+"
)
_WEBHOOK = re.compile(r"(?i)(hooks\.slack\.com/|discord(?:app)?\.com/api/webhooks/)\S+")
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
    """``text`` without the logins, secret query values and webhook paths of the URLs in it."""
    return _WEBHOOK.sub(r"\1…", _URL_SECRET.sub(r"\1…", _URL_LOGIN.sub("…", text)))


def shown(name: str, value: str) -> str:
    """The value of an environment variable, masked when its name or form says it is a secret."""
    return mask(value) if is_secret_name(name) else mask_url(value)


def is_secret_name(name: str) -> bool:
    """Whether a variable's value is masked whatever it is."""
    return _SECRET_NAME.search(name) is not None
