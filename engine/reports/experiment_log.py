"""The experiment log: one Markdown entry per experiment, newest last, ids never reused."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from engine.base import files, locks
from engine.base.errors import UsageError
from engine.reports.entry import LogEntry, draft_entry, render

__all__ = ["LogEntry", "append_entry", "draft_entry", "next_id", "render"]

PREFIX = "EXP"
HEADING = "# Experiment log\n"

_ID = re.compile(rf"^#{{1,6}} \[{PREFIX}-(\d+)\]", re.MULTILINE)


def next_id(text: str) -> str:
    """The id after the highest one used in a log."""
    used = [int(match.group(1)) for match in _ID.finditer(text)]
    return f"{PREFIX}-{max(used, default=0) + 1:03d}"


def append_entry(path: Path, entry: LogEntry, *, force: bool = False) -> str:
    """Append ``entry`` to the log and return its id, creating the file when it is missing.

    An id that is empty or taken by now is replaced with the next free one. Raises UsageError when
    the run already has an entry (unless ``force``) or the file cannot be read or written.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise UsageError(f"{path}: not a regular file; nothing was written")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locks.held(path.parent):
            return _append(path, entry, force)
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text; nothing was written") from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; nothing was written") from error


def _append(path: Path, entry: LogEntry, force: bool) -> str:
    text = path.read_text(encoding="utf-8") if path.exists() else HEADING
    earlier = _entry_of_run(text, entry.run)
    if earlier is not None and not force:
        raise UsageError(f"{path}: run '{entry.run}' already has an entry, {earlier}")
    free = entry.id and not re.search(rf"^#+ \[{re.escape(entry.id)}\]", text, re.MULTILINE)
    numbered = entry if free else replace(entry, id=next_id(text))
    files.write_atomic(path, f"{text.rstrip()}\n\n{render(numbered)}")
    return numbered.id


def _entry_of_run(text: str, run: str) -> str | None:
    """The id of the entry that was written for ``run``."""
    current = None
    for line in text.splitlines():
        heading = _ID.match(line)
        if heading is not None:
            current = f"{PREFIX}-{heading.group(1)}"
        elif run and line.startswith(f"- **Run:** `{run}`"):
            return current
    return None
