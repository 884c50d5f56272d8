"""Secrets have no place in a recipe: its values are shown, logged and kept with the run."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from engine.errors import UsageError

_SECRET_NAME = re.compile(
    r"(?i)(api_?key|secret|passw(or)?d|credential|signature|(access|auth|api|hf|wandb|bearer)_?token"
    r"|^token$|_pat$|private_?key|^key$|^sig$|^auth$)"
)


def refuse_secret(where: str, key: str, value: Any) -> None:
    """Raise UsageError, without the value, when ``key`` or a URL in ``value`` holds a secret."""
    if not isinstance(value, str) or not value:
        return
    name = key.rpartition(".")[2].replace("-", "_")
    if _SECRET_NAME.search(name) and "${" not in value:
        raise UsageError(
            f"{where}: {key} looks like a secret, and a recipe's values are kept with the run; "
            "set it in the environment instead"
        )
    if "://" in value and _url_has_secret(value):
        raise UsageError(
            f"{where}: the URL of {key} holds a login or a key, and a recipe's values are kept "
            "with the run; set it in the environment instead"
        )


def _url_has_secret(text: str) -> bool:
    authority = text.split("://", 1)[1]
    if "@" in re.split(r"[?#]", authority, maxsplit=1)[0]:
        return True
    try:
        parts = urlsplit(text)
    except ValueError:
        return True
    names = [name for query in (parts.query, parts.fragment) for name, _ in parse_qsl(query)]
    return any(_is_secret(name.replace("-", "_")) for name in names)


def _is_secret(name: str) -> bool:
    """In a URL every key is one; among a recipe's keys ``prompt_key`` is not."""
    return bool(_SECRET_NAME.search(name)) or name.lower().endswith("key")
