"""``${...}`` references that stand for a secret: kept as they are, or refused.

What a recipe's reference stands for is filled in when the recipe is read, and then shown, logged
and kept with the run. A secret must not go that way. In the variables of the run's processes
(``ray_kwargs.ray_init.runtime_env.env_vars``) the reference itself is kept, and the trainer fills
it in for its own environment. Everywhere else a secret is refused: verl prints its configuration.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from engine.base.errors import UsageError
from engine.base.masking import holds_secret, names_secret
from engine.recipe.keys import flatten, unflatten
from engine.recipe.secrets import is_secret_key

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
    kept = {}
    for key in sorted(values, key=lambda key: "oc.env" not in str(given.get(key))):
        value, source = values[key], _source(key, given).replace("\\${", "")
        if "${" not in source or not _is_secret(key, value, source, env):
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


def _is_secret(key: str, value: Any, source: str, env: Mapping[str, str]) -> bool:
    if value in (None, ""):
        return False
    named = (name for name in _VARIABLE.findall(source) if env.get(name))
    if any(names_secret(name, env[name]) for name in named):
        return True
    return is_secret_key(key, value) or holds_secret(str(value))


def _refusal(where: str, key: str, source: str) -> str:
    names = ", ".join(dict.fromkeys(_VARIABLE.findall(source)))
    what = f" ({names})" if names else ""
    return (
        f"{where}: {key} stands for a secret{what}, and a recipe's values are kept with the run; "
        f"let the code read the variable itself, or give it to the run's processes with "
        f"{VARIABLES}NAME"
    )
