"""Secrets have no place in a recipe: its values are shown, logged and kept with the run."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from engine.base.errors import UsageError
from engine.base.masking import holds_secret

_SECRET_NAME = re.compile(
    r"(?i)(api_?key|secret|passw(or)?d|credential|signature|(access|auth|api|hf|wandb|bearer)_?token"
    r"|^token$|_pat$|private_?key|^key$|^sig$|^auth$)"
)
# In capitals it is an environment variable, and no token of a vocabulary.
_SECRET_VARIABLE = re.compile(r"[A-Z0-9_]*(TOKEN|PASSPHRASE|PWD)")
_URL = re.compile(r"://|^//|\?[\w.-]+=")
_LOGIN = re.compile(r"[^\s/@:]+:[^\s/@]+@[\w.-]+")
_IN_URLS = re.compile(r"(?i)key$|token$|^(code|pwd|pass|jwt|bearer|session|sid)$")
# Whoever knows the address of a webhook may post to it.
_WEBHOOK = re.compile(
    r"(?i)hooks\.slack\.com/|discord(app)?\.com/api/webhooks|webhook\.office\.com/"
)


def refuse_secret(where: str, key: str, value: Any) -> None:
    """Raise UsageError, without the value, when ``key`` or a URL in ``value`` holds a secret."""
    if isinstance(value, dict):
        for inner, one in value.items():
            refuse_secret(where, f"{key}.{inner}", one)
    if isinstance(value, list):
        _refuse_command(where, key, value)
    if not isinstance(value, str) or not value:
        return
    name = key.rpartition(".")[2].replace("-", "_")
    hook = "webhook" in name.lower() and "://" in value
    if hook or _LOGIN.match(value) or (_URL.search(value) and _url_has_secret(value)):
        raise UsageError(
            f"{where}: the URL of {key} holds a login or a key, and a recipe's values are kept "
            "with the run; set it in the environment instead"
        )
    # What a reference stands for is looked at when it is filled in.
    if ("${" not in value and is_secret_key(key, value)) or holds_secret(value):
        raise UsageError(
            f"{where}: {key} looks like a secret, and a recipe's values are kept with the run; "
            "set it in the environment instead"
        )


def is_secret_key(key: str, value: Any) -> bool:
    """Whether the name of ``key`` says that its value, a text that is not empty, is a secret."""
    name = key.rpartition(".")[2].replace("-", "_")
    named = _SECRET_NAME.search(name) or _SECRET_VARIABLE.fullmatch(name)
    return bool(named and isinstance(value, str) and value)


def _refuse_command(where: str, key: str, words: list[Any]) -> None:
    """Each word by itself, and all together: ``[curl, --token, abc]``."""
    for word in words:
        refuse_secret(where, key, word)
    refuse_secret(where, key, " ".join(word for word in words if isinstance(word, str)))


def _url_has_secret(text: str) -> bool:
    address = text.split("//", 1)[-1]
    if "@" in re.split(r"[?#]", address, maxsplit=1)[0] or _WEBHOOK.search(address):
        return True
    try:
        parts = urlsplit(text)
    except ValueError:
        return True
    settings = (parts.query, parts.fragment, *parts.path.split(";")[1:])
    names = [name for setting in settings for name, _ in parse_qsl(setting)]
    return any(_is_secret(name.replace("-", "_")) for name in names)


def _is_secret(name: str) -> bool:
    """In a URL every key is one; among a recipe's keys ``prompt_key`` is not."""
    return bool(_SECRET_NAME.search(name) or _IN_URLS.search(name))
