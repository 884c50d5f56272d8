"""A cache of the rows of the runs list, so that ten thousand runs are listed at once.

It is rebuilt from the run directories. A locked or damaged cache, or a file system without locks,
makes the list slower, never wrong.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from engine.base import files, typed

R = TypeVar("R", bound=Struct)

# Part of the file name: programs of different versions do not share a file.
_VERSION = 10
_BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_SCHEMA = """
create table if not exists run (
    root text not null, id text not null, stamp text not null, row text not null,
    primary key (root, id)
) without rowid
"""


def index_path() -> Path:
    """``runs-<version>.sqlite`` in the cache folder."""
    return cache_folder() / f"runs-{_VERSION}.sqlite"


def cache_folder() -> Path:
    """``grubrics-tui`` in the user's cache directory."""
    home = os.path.expanduser("~")  # noqa: PTH111 - Path.home() fails without one
    cache = os.environ.get("XDG_CACHE_HOME") or f"{home}/.cache"
    # A user without a home has no cache, and no folder named "~" is created.
    return Path("/dev/null" if cache.startswith("~") else cache) / "grubrics-tui"


class Index(Generic[R]):
    """Rows of one runs directory by run ID, each valid for one stamp of its files."""

    def __init__(self, root: Path, kind: type[R], path: Path | None = None) -> None:
        # A path may be invalid as text in a database.
        self._root = ascii(str(root.resolve()))
        self._path = index_path() if path is None else path
        self._kind = kind

    def read(self) -> dict[str, tuple[str, R]]:
        """``id -> (stamp, row)``; empty without a usable index."""
        query = "select id, stamp, cast(row as text) from run where root = ?"
        try:
            with self._open() as database:
                stored = database.execute(query, [self._root]).fetchall()
        except (sqlite3.Error, OSError):
            return {}
        rows = _decode([text for _, _, text in stored], self._kind)
        if rows is None:
            self._discard()
            return {}
        return {id: (stamp, row) for (id, stamp, _), row in zip(stored, rows, strict=True)}

    def update(self, changed: Mapping[str, tuple[str, R]], gone: set[str]) -> None:
        """Store new rows and forget runs that are no longer there."""
        if not changed and not gone:
            return
        rows = [(self._root, id, stamp, _encode(row)) for id, (stamp, row) in changed.items()]
        forgotten = [(self._root, id) for id in gone]
        with suppress(sqlite3.Error, OSError), self._open() as database:
            database.executemany("insert or replace into run values (?, ?, ?, ?)", rows)
            database.executemany("delete from run where root = ? and id = ?", forgotten)
            database.commit()

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        # Only the owner may read the rows: some of the runs may be private.
        files.make_private(self._path.parent)
        try:
            with closing(sqlite3.connect(self._path, timeout=1.0)) as database:
                # The write-ahead log needs shared memory, which network file systems do not have.
                database.execute("pragma journal_mode = delete")
                database.execute("pragma synchronous = off")
                database.execute(_SCHEMA)
                yield database
        except sqlite3.DatabaseError as error:
            # An error without a code is about the stored data, e.g. invalid text.
            if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) in _BROKEN:
                self._discard()
            raise

    def _discard(self) -> None:
        """Delete the file: a damaged one would never work again."""
        with suppress(OSError):
            self._path.unlink()


def _encode(row: Struct) -> str:
    """The row as JSON. Half a surrogate pair, which no database takes, becomes a question mark."""
    text = json.dumps(typed.to_json(row), ensure_ascii=False)
    return text.encode(errors="replace").decode()


def _decode(texts: Sequence[str], kind: type[R]) -> list[R] | None:
    """The rows; None if one of them is damaged."""
    with suppress(msgspec.MsgspecError, RecursionError):
        # One call: a call for each of ten thousand rows takes longer than everything else.
        text = f"[{','.join(texts)}]"
        rows: list[R] = msgspec.json.decode(text, type=list[kind])  # type: ignore[valid-type]
        if len(rows) == len(texts):
            return rows
    decoded = (typed.decode_record(text.encode(), kind) for text in texts)
    valid = [row for row in decoded if row is not None]
    return valid if len(valid) == len(texts) else None


def stamp(file: str) -> str:
    """Inode, size and modification time: changes whenever the file is replaced.

    Takes text: ten thousand path objects would take longer than the file status.
    """
    status = os.stat(file)  # noqa: PTH116
    return f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"
