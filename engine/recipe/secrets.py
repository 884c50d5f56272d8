"""Keep secrets out of configs: refuse them in values, and leave ``${...}`` references to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from engine.base.errors import UsageError
from engine.base.masking import holds_secret, names_secret
from engine.recipe.keys import flatten, unflatten

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
            f"{where}: the URL of {key} holds a login or a key, and config values are stored "
            "with the run; set it in the environment instead"
        )
    # What a reference stands for is looked at when it is filled in.
    if ("${" not in value and is_secret_key(key, value)) or holds_secret(value):
        raise UsageError(
            f"{where}: {key} looks like a secret, and config values are stored with the run; "
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


VARIABLES = "ray_kwargs.ray_init.runtime_env.env_vars."

_VARIABLE = re.compile(r"""\boc\.env\s*:\s*["']?(\w+)""")


def secret_references(
    where: str,
    written: Mapping[str, Any],
    values: Mapping[str, Any],
    env: Mapping[str, str],
) -> dict[str, str]:
    """The references that are kept, by key: those of ``VARIABLES``. UsageError for any other.

    ``written`` are the values as they were given, ``values`` the same with references filled in.
    """
    given = dict(flatten(unflatten(written)))
    is_secret = cache(holds_secret)  # Most of a hundred values are one of a few words.
    kept = {}
    for key in sorted(values, key=lambda key: "oc.env" not in str(given.get(key))):
        value, source = values[key], _source(key, given).replace("\\${", "")
        if "${" not in source or not _refers_to_secret(key, value, source, env, is_secret):
            continue
        if not key.startswith(VARIABLES) or not isinstance(given.get(key), str):
            raise UsageError(_refusal(where, key, source))
        kept[key] = given[key]
    return kept


def _source(key: str, given: Mapping[str, Any]) -> str:
    """What was written for ``key``, or for a section above it that a reference stands for."""
    while key and key not in given:
        key = key.rpartition(".")[0]
    return str(given.get(key))


def _refers_to_secret(
    key: str, value: Any, source: str, env: Mapping[str, str], is_secret: Callable[[str], bool]
) -> bool:
    if value in (None, ""):
        return False
    named = (name for name in _VARIABLE.findall(source) if env.get(name))
    if any(names_secret(name, env[name]) for name in named):
        return True
    return is_secret_key(key, value) or is_secret(str(value))


def _refusal(where: str, key: str, source: str) -> str:
    names = ", ".join(dict.fromkeys(_VARIABLE.findall(source)))
    what = f" ({names})" if names else ""
    return (
        f"{where}: {key} stands for a secret{what}, and config values are stored with the run; "
        f"let the code read the variable itself, or give it to the run's processes with "
        f"{VARIABLES}NAME"
    )
