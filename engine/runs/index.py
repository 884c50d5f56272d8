"""A cache of what runs look like, so that ten thousand of them list at once.

It is only a cache: it is rebuilt from the run directories by looking at them, and whatever is
wrong with it (locked, broken, on a file system without locks) makes the list slower, never wrong.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

_SCHEMA = """
create table if not exists run (
    root text not null, id text not null, stamp text not null, row text not null,
    primary key (root, id)
) without rowid
"""


def index_path() -> Path:
    """``grubrics-tui/runs.sqlite`` in the user's cache directory."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "grubrics-tui" / "runs.sqlite"


class Index:
    """Rows of one runs folder: JSON objects by run id, each valid for one stamp of its files."""

    def __init__(self, root: Path, path: Path | None = None) -> None:
        self._root = str(root.resolve())
        self._path = index_path() if path is None else path

    def read(self) -> dict[str, tuple[str, str]]:
        """``id -> (stamp, row)``; empty when there is no usable index."""
        try:
            with self._open() as database:
                query = "select id, stamp, row from run where root = ?"
                return {
                    id: (stamp, row) for id, stamp, row in database.execute(query, [self._root])
                }
        except (sqlite3.Error, OSError):
            return {}

    def update(self, changed: Mapping[str, tuple[str, str]], gone: set[str]) -> None:
        """Store new rows and forget runs that are no longer there."""
        if not changed and not gone:
            return
        rows = [(self._root, id, stamp, row) for id, (stamp, row) in changed.items()]
        try:
            with self._open() as database:
                database.executemany("insert or replace into run values (?, ?, ?, ?)", rows)
                database.executemany(
                    "delete from run where root = ? and id = ?", [(self._root, id) for id in gone]
                )
                database.commit()
        except (sqlite3.Error, OSError):
            return

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with closing(self._connect()) as database:
            yield database

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path, timeout=1.0)
        try:
            # The write-ahead log needs shared memory, which network file systems do not have.
            database.execute("pragma journal_mode = delete")
            database.execute("pragma synchronous = off")
            database.execute(_SCHEMA)
        except sqlite3.DatabaseError:
            database.close()
            self._discard_if_broken()
            raise
        return database

    def _discard_if_broken(self) -> None:
        """A file that is no database would be in the way for ever; a locked one is left alone."""
        with self._path.open("rb") as handle:
            header = handle.read(16)
        if header and header != b"SQLite format 3\0":
            self._path.unlink(missing_ok=True)


def stamp(state_file: Path) -> str:
    """Changes whenever the file is replaced: inode, size and time of its last change."""
    status = state_file.stat()
    return f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"


def encode(row: Mapping[str, object]) -> str:
    return json.dumps(row)
