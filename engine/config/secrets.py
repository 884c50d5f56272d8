"""Keep secrets out of configs: refuse them in values, and leave ``${...}`` references to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from engine.base.errors import UsageError
from engine.base.masking import holds_credentials, holds_secret, is_secret, is_secret_key


def refuse_secret(where: str, key: str, value: Any) -> None:
    """Raise UsageError, without the value, when ``key`` or a URL in ``value`` holds a secret."""
    if isinstance(value, dict):
        for name, item in value.items():
            refuse_secret(where, f"{key}.{name}", item)
    if isinstance(value, list):
        for item in value:
            refuse_secret(where, key, item)
        # All words together, too: [curl, --token, abc].
        refuse_secret(where, key, " ".join(item for item in value if isinstance(item, str)))
    if not isinstance(value, str) or not value:
        return
    # The address of a webhook is its only credential.
    is_hook = "webhook" in key.rpartition(".")[2].lower() and "://" in value
    if is_hook or holds_credentials(value):
        raise UsageError(
            f"{where}: the URL of {key} holds a login or a key, and config values are stored "
            "with the run; set it in the environment instead"
        )
    # secret_references checks the values that references resolve to.
    if ("${" not in value and is_secret_key(key)) or holds_secret(value):
        raise UsageError(
            f"{where}: {key} looks like a secret, and config values are stored with the run; "
            "set it in the environment instead"
        )


VARIABLES = "ray_kwargs.ray_init.runtime_env.env_vars."

_VARIABLE = re.compile(r"""\boc\.env\s*:\s*["']?(\w+)""")


def secret_references(
    where: str,
    written: Mapping[str, Any],
    values: Mapping[str, Any],
    env: Mapping[str, str],
) -> dict[str, str]:
    """Return the references to secrets below ``VARIABLES``, by key. UsageError for any other.

    ``written`` holds the leaves before their references were resolved, ``values`` those after.
    """
    is_shape = cache(holds_secret)  # Many keys share a few values.
    references = {}
    for key in sorted(values, key=lambda key: "oc.env" not in str(written.get(key))):
        source_key = key
        while source_key and source_key not in written:  # A section may be one reference.
            source_key = source_key.rpartition(".")[0]
        source = str(written.get(source_key)).replace("\\${", "")
        if "${" not in source or not _refers_to_secret(key, values[key], source, env, is_shape):
            continue
        if not key.startswith(VARIABLES) or not isinstance(written.get(key), str):
            names = ", ".join(dict.fromkeys(_VARIABLE.findall(source)))
            raise UsageError(
                f"{where}: {key} refers to a secret{f' ({names})' if names else ''}, and config "
                "values are stored with the run; let the code read the variable itself, or give "
                f"it to the run's processes with {VARIABLES}NAME"
            )
        references[key] = written[key]
    return references


def _refers_to_secret(
    key: str, value: Any, source: str, env: Mapping[str, str], is_shape: Callable[[str], bool]
) -> bool:
    if value in (None, ""):
        return False
    variables = (name for name in _VARIABLE.findall(source) if env.get(name))
    if any(is_secret(name, env[name]) for name in variables):
        return True
    return (isinstance(value, str) and is_secret_key(key)) or is_shape(str(value))
