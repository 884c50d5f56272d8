"""Read credentials from ``.env`` in the working folder, without a shell that sources it."""

from __future__ import annotations

import errno
import os
from collections.abc import MutableMapping
from io import StringIO
from pathlib import Path

from engine.base import files
from engine.base.errors import UsageError
from engine.base.writers import complaint_of, untrusted_writer

_LARGEST = 1 << 20


def load_env_file(env: MutableMapping[str, str], path: Path = Path(".env")) -> list[str]:
    """Add the variables of ``path`` to ``env``; what is already set there wins.

    The file is optional. It decides where keys are sent and what the run's processes load, so one
    that somebody else could have written is not read. Returns a line for that, and for each place
    that cannot be read, which is left out. UsageError for a file that is not text or too large, and
    for a variable that no environment takes.
    """
    if not path.is_file():
        return []
    from dotenv import dotenv_values
    from dotenv.parser import parse_stream

    try:
        content, complaint = _read(path)
        if complaint is not None:
            return [f"{path} {complaint} and was not read; {way_on(path)}"]
        text = content.decode()
        lines = list(parse_stream(StringIO(text, newline=None)))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text: {error}") from error
    whole = "".join(line.original.string for line in lines if not line.error)
    for name, value in dotenv_values(stream=StringIO(whole)).items():
        if value is None:
            continue
        try:
            env.setdefault(name, value)
        except ValueError as error:
            raise UsageError(f"{path}: invalid variable name {name!r}: {error}") from error
    return [
        f"{path}: line {line.original.line} is not NAME=value and was left out"
        for line in lines
        if line.error
    ]


def _read(path: Path) -> tuple[bytes, str | None]:
    """The content, and who else could have written what was opened."""
    with files.open_regular(path) as handle:
        status = os.fstat(handle.fileno())
        complaint = complaint_of(path, status) or untrusted_writer(path)
        data = b"" if complaint else handle.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise OSError(errno.EFBIG, f"larger than the {_LARGEST >> 10} KiB that it may have")
    return data, complaint


def way_on(path: Path) -> str:
    """What lets a file count that somebody else could have written."""
    return f"make it yours alone (chmod 600 {path}), or export its variables yourself"
