"""``.env`` in the project folder: credentials that need no shell to be sourced."""

from __future__ import annotations

from collections.abc import MutableMapping
from pathlib import Path

from engine.errors import UsageError


def load_env_file(env: MutableMapping[str, str], path: Path = Path(".env")) -> None:
    """Add the variables of ``path`` to ``env``; what is already set there wins.

    The file is optional. UnicodeError when it is not text, UsageError for a variable that no
    environment takes.
    """
    if not path.is_file():
        return
    from dotenv import dotenv_values

    for name, value in dotenv_values(path).items():
        if value is None:
            continue
        try:
            env.setdefault(name, value)
        except ValueError as error:
            raise UsageError(f"{path}: {name!r} cannot be a variable: {error}") from error
