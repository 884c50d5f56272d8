"""Read credentials from ``.env`` in the working folder, without a shell that sources it, and write
them there."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, MutableMapping
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


def set_variable(name: str, value: str, path: Path = Path(".env")) -> None:
    """Write ``NAME=value`` into ``path``, in the place of an earlier value or at the end.

    The file becomes readable by its owner only; its other lines stay. UsageError for a file that
    somebody else could have written, and for a value that could not be read back.
    """
    text = _text(path)
    line = f"{name}={_quoted(value)}"
    if name in _values(text):
        changed = "".join(_without(name, text, replacement=line))
    else:
        changed = "".join(
            (text, "" if text.endswith(("\n", "\r")) or not text else "\n", line, "\n")
        )
    if _values(changed).get(name) != value:
        raise UsageError(f"{name}: {path} cannot hold this value; export it in the shell instead")
    files.write_atomic(path.resolve(), changed, is_private=True)


def unset_variable(name: str, path: Path = Path(".env")) -> bool:
    """Remove ``name`` from ``path``, and return whether it was there. Errors as above."""
    text = _text(path)
    if name not in _values(text):
        return False
    files.write_atomic(path.resolve(), "".join(_without(name, text)), is_private=True)
    return True


def _text(path: Path) -> str:
    """The text of a file that no other user can write; empty if there is no file."""
    if not path.exists():
        return ""
    try:
        content, complaint = _read(path)
        text = content.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text: {error}") from error
    if complaint is not None:
        raise UsageError(f"{path} {complaint} and was not changed; {way_on(path)}")
    return text


def _without(name: str, text: str, replacement: str | None = None) -> Iterator[str]:
    """The pieces of ``text`` without the values of ``name``; the first gives way to a replacement.

    A comment behind a value stays with the replacement.
    """
    from dotenv.parser import parse_stream

    for binding in parse_stream(StringIO(text, newline="")):
        written = binding.original.string
        if binding.key != name or binding.error:
            yield written
            continue
        match = _ASSIGNED.fullmatch(written)
        before, comment, end = match.groups(default="") if match else ("", "", "\n")
        if replacement is not None:
            yield f"{before}{replacement}{comment}{end}"
            replacement = None
        else:
            yield before


_ASSIGNED = re.compile(
    r"""(\s*)(?:export[^\S\r\n]+)?[^=\s]+\s*(?:=[^\S\r\n]*(?:'(?:\\'|[^'])*'|"(?:\\"|[^"])*"|[^\r\n]*?))?
    ([^\S\r\n]+\#[^\r\n]*)?[^\S\r\n]*(\r?\n|\r)?""",
    re.VERBOSE,
)
_PLAIN = re.compile(r"[\w./:+=@%,~-]+")


def _quoted(value: str) -> str:
    """A value as both dotenv and a shell read it."""
    return value if _PLAIN.fullmatch(value) else f"'{value}'"


def _values(text: str) -> dict[str, str | None]:
    from dotenv import dotenv_values

    return dotenv_values(stream=StringIO(text))
