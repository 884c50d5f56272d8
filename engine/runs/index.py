"""A cache of what runs look like, so that ten thousand of them list at once.

It is only a cache: it is rebuilt from the run directories by looking at them, and whatever is
wrong with it (locked, broken, on a file system without locks) makes the list slower, never wrong.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from engine.base import files

Row = dict[str, Any]

# In the name: a program of another version keeps its own file.
_VERSION = 4
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
    # A user without a home has no cache; "~" is no folder to create.
    return Path("/dev/null" if cache.startswith("~") else cache) / "grubrics-tui"


class Index:
    """Rows of one runs folder: JSON objects by run id, each valid for one stamp of its files."""

    def __init__(self, root: Path, path: Path | None = None) -> None:
        # A path need not be text that a database takes.
        self._root = ascii(str(root.resolve()))
        self._path = index_path() if path is None else path

    def read(self) -> dict[str, tuple[str, Row]]:
        """``id -> (stamp, row)``; empty when there is no usable index."""
        query = "select id, stamp, row from run where root = ?"
        try:
            with self._open() as database:
                stored = database.execute(query, [self._root]).fetchall()
        except (sqlite3.Error, OSError):
            return {}
        rows = _decode([text for _, _, text in stored])
        if rows is None:
            self._discard()
            return {}
        return {id: (stamp, row) for (id, stamp, _), row in zip(stored, rows, strict=True)}

    def update(self, changed: Mapping[str, tuple[str, Row]], gone: set[str]) -> None:
        """Store new rows and forget runs that are no longer there."""
        if not changed and not gone:
            return
        rows = [(self._root, id, stamp, json.dumps(row)) for id, (stamp, row) in changed.items()]
        forgotten = [(self._root, id) for id in gone]
        with suppress(sqlite3.Error, OSError), self._open() as database:
            database.executemany("insert or replace into run values (?, ?, ?, ?)", rows)
            database.executemany("delete from run where root = ? and id = ?", forgotten)
            database.commit()

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        files.make_private(
            self._path.parent
        )  # It tells what runs hold that only their owner reads.
        try:
            with closing(sqlite3.connect(self._path, timeout=1.0)) as database:
                # The write-ahead log needs shared memory, which network file systems do not have.
                database.execute("pragma journal_mode = delete")
                database.execute("pragma synchronous = off")
                database.execute(_SCHEMA)
                yield database
        except sqlite3.DatabaseError as error:
            # Those without a code are about what is stored, such as text that is none.
            if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) in _BROKEN:
                self._discard()
            raise

    def _discard(self) -> None:
        """A broken file would be in the way for ever."""
        with suppress(OSError):
            self._path.unlink()


def stamp(file: str) -> str:
    """Changes whenever the file is replaced: inode, size and time of its last change.

    Takes text: making ten thousand path objects would take longer than looking at the files.
    """
    status = os.stat(file)  # noqa: PTH116
    return f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"


def _decode(texts: list[Any]) -> list[Row] | None:
    """JSON objects, in one call because ten thousand would take longer than all else; or None."""
    try:
        rows = json.loads(f"[{','.join(texts)}]")
    except (TypeError, ValueError, RecursionError):
        return None
    whole = len(rows) == len(texts) and all(isinstance(row, dict) for row in rows)
    return rows if whole else None
