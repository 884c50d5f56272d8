"""``.env`` in the project folder: credentials that need no shell to be sourced."""

from __future__ import annotations

from collections.abc import MutableMapping
from io import StringIO
from pathlib import Path

from engine.errors import UsageError


def load_env_file(env: MutableMapping[str, str], path: Path = Path(".env")) -> list[str]:
    """Add the variables of ``path`` to ``env``; what is already set there wins.

    The file is optional. Returns a line for each place that cannot be read, which is left out.
    UsageError for a file that is not text, and for a variable that no environment takes.
    """
    if not path.is_file():
        return []
    from dotenv import dotenv_values
    from dotenv.parser import parse_stream

    try:
        lines = list(parse_stream(StringIO(path.read_text(encoding="utf-8"))))
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not a text in UTF-8: {error}") from error
    whole = "".join(line.original.string for line in lines if not line.error)
    for name, value in dotenv_values(stream=StringIO(whole)).items():
        if value is None:
            continue
        try:
            env.setdefault(name, value)
        except ValueError as error:
            raise UsageError(f"{path}: {name!r} cannot be a variable: {error}") from error
    return [
        f"{path}: line {line.original.line} is not NAME=value and was left out"
        for line in lines
        if line.error
    ]
