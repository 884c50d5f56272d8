"""Tags and the note of a run, in ``notes.json`` in its folder.

No process of the run reads or writes that file, so it can be changed at any time.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from engine.base import jsonl, locks
from engine.base.errors import UsageError, unknown_name
from engine.base.masking import holds_secret, mask_text
from engine.run.rundir import RunDir
from engine.run.trust import require

MOST_TAGS = 20
LONGEST_NOTE = 4000

_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


@dataclass(frozen=True)
class Notes:
    """Valid tags, and text that is safe to display."""

    tags: tuple[str, ...] = ()
    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.tags or self.text)

    def to_json(self) -> dict[str, Any]:
        return {"tags": list(self.tags), "text": self.text}

    @classmethod
    def from_json(cls, raw: Any) -> Notes:
        """The notes of a file or an index row, without invalid parts."""
        if not isinstance(raw, dict):
            return cls()
        raw_tags = raw.get("tags")
        tags = [tag for tag in raw_tags if is_tag(tag)] if isinstance(raw_tags, list) else []
        return cls(tuple(dict.fromkeys(tags))[:MOST_TAGS], _clean(raw.get("text")))


def check_tag(tag: str) -> str:
    """Return a valid ``tag``; UsageError otherwise."""
    if not is_tag(tag):
        raise UsageError(
            f"tag {tag!r} must be ASCII letters, digits, '.', '_', '-', at most 40 of them"
        )
    if holds_secret(tag):
        raise UsageError(f"tag {tag!r} looks like a secret, and tags are stored with the run")
    return tag


def read_notes(run: RunDir) -> Notes:
    """The notes of a run; empty if there are none."""
    return Notes.from_json(jsonl.read_json(run.notes))


def add_tags(run: RunDir, tags: Iterable[str]) -> Notes:
    """Add tags. Existing ones keep their position."""
    new = [check_tag(tag) for tag in tags]
    with _changing(run) as before:
        all_tags = tuple(dict.fromkeys([*before.tags, *new]))
        return _write(run, Notes(all_tags, before.text))


def remove_tags(run: RunDir, tags: Iterable[str]) -> Notes:
    """Remove tags. UsageError for a tag that the run does not have."""
    gone = set(tags)
    with _changing(run) as before:
        for tag in gone.difference(before.tags):
            raise unknown_name(f"tag of run {run.id}", tag, before.tags)
        return _write(run, Notes(tuple(t for t in before.tags if t not in gone), before.text))


def write_note(run: RunDir, text: str) -> tuple[Notes, str]:
    """Replace the note; an empty one removes it. Returns the notes, and the note before."""
    with _changing(run) as before:
        return _write(run, Notes(before.tags, _checked(text))), before.text


class NotesChangedError(UsageError):
    """The note is no longer the one that was edited: it is that of ``now``."""

    def __init__(self, now: Notes) -> None:
        super().__init__(f"the note was changed meanwhile, to: {now.text or '(no note)'}")
        self.now = now


def edit_notes(run: RunDir, before: Notes, tags: Iterable[str], text: str) -> Notes:
    """Save what a form made of the notes ``before``. What others changed meanwhile is kept.

    NotesChangedError if both changed the note.
    """
    new = Notes(tuple(dict.fromkeys(check_tag(tag) for tag in tags)), _checked(text))
    with _changing(run) as now:
        kept = [tag for tag in now.tags if tag in new.tags or tag not in before.tags]
        added = [tag for tag in new.tags if tag not in before.tags]
        all_tags = new.tags if now.tags == before.tags else tuple(dict.fromkeys([*kept, *added]))
        if now.text not in (before.text, new.text) and new.text != before.text:
            raise NotesChangedError(now)
        return _write(run, Notes(all_tags, new.text if now.text == before.text else now.text))


def _write(run: RunDir, notes: Notes) -> Notes:
    if len(notes.tags) > MOST_TAGS:
        raise UsageError(
            f"run '{run.id}' would have {len(notes.tags)} tags; at most {MOST_TAGS} are allowed"
        )
    jsonl.write_json(run.notes, {"v": 1, **notes.to_json()})
    return notes


def _checked(text: str) -> str:
    if len(text) > LONGEST_NOTE:
        raise UsageError(f"a note is {LONGEST_NOTE} characters at most; this one has {len(text)}")
    return _clean(mask_text(text))


@contextlib.contextmanager
def _changing(run: RunDir) -> Iterator[Notes]:
    """The present notes, locked against other changes.

    The lock is a separate file, since every change replaces the notes. On a file system without
    locks, nothing is locked.
    """
    require(run)
    with locks.held_file(run.path / ".notes.lock"):
        yield read_notes(run)


def is_tag(value: Any) -> bool:
    return isinstance(value, str) and _TAG.fullmatch(value) is not None


def _clean(text: Any) -> str:
    """Remove control and invisible characters, and empty lines at both ends."""
    if not isinstance(text, str):
        return ""
    lines = [jsonl.line(line) or "" for line in text[:LONGEST_NOTE].splitlines()]
    return "\n".join(line.rstrip() for line in lines).strip("\n")
