"""``.env`` in the project folder: credentials that need no shell to be sourced."""

from __future__ import annotations

from collections.abc import MutableMapping
from pathlib import Path


def load_env_file(env: MutableMapping[str, str], path: Path = Path(".env")) -> None:
    """Add the variables of ``path`` to ``env``; what is already set there wins.

    The file is optional. UnicodeError when it is not text.
    """
    if not path.is_file():
        return
    from dotenv import dotenv_values

    for name, value in dotenv_values(path).items():
        if value is not None:
            env.setdefault(name, value)
