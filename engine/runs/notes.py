"""What a person says about a run: tags and a note, in ``notes.json`` beside what the run writes.

Nothing of a run reads or writes that file, so it can be changed at any time.
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
from engine.runs.rundir import RunDir
from engine.runs.trust import require

MOST_TAGS = 20
LONGEST_NOTE = 4000

_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


@dataclass(frozen=True)
class Notes:
    """Safe to show whatever the file says: tags as ``check_tag`` wants them, lines of text."""

    tags: tuple[str, ...] = ()
    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.tags or self.text)

    def to_json(self) -> dict[str, Any]:
        return {"tags": list(self.tags), "text": self.text}

    @classmethod
    def from_json(cls, raw: Any) -> Notes:
        """The notes of a file or an index row; what is not as it should be is left out."""
        if not isinstance(raw, dict):
            return cls()
        found = raw.get("tags")
        tags = [tag for tag in found if _is_tag(tag)] if isinstance(found, list) else []
        return cls(tuple(dict.fromkeys(tags))[:MOST_TAGS], _clean(raw.get("text")))


def check_tag(tag: str) -> str:
    """``tag`` when it can be one; UsageError otherwise."""
    if not _is_tag(tag):
        raise UsageError(f"tag {tag!r} must be letters, digits, '.', '_', '-', at most 40 of them")
    if holds_secret(tag):
        raise UsageError(f"tag {tag!r} looks like a secret, and tags are kept with the run")
    return tag


def read_notes(run: RunDir) -> Notes:
    """Empty while nobody has noted anything."""
    return Notes.from_json(jsonl.read_json(run.notes))


def add_tags(run: RunDir, tags: Iterable[str]) -> Notes:
    """Tags that the run has already are kept where they are."""
    new = [check_tag(tag) for tag in tags]
    with _changing(run) as before:
        found = tuple(dict.fromkeys([*before.tags, *new]))
        return _write(run, Notes(found, before.text))


def remove_tags(run: RunDir, tags: Iterable[str]) -> Notes:
    """UsageError for a tag that the run does not have."""
    gone = set(tags)
    with _changing(run) as before:
        for tag in gone.difference(before.tags):
            raise unknown_name(f"tag of run {run.id}", tag, before.tags)
        return _write(run, Notes(tuple(t for t in before.tags if t not in gone), before.text))


def write_note(run: RunDir, text: str) -> Notes:
    """Replace the note; an empty one removes it."""
    with _changing(run) as before:
        return _write(run, Notes(before.tags, _checked(text)))


def replace_notes(run: RunDir, tags: Iterable[str], text: str) -> Notes:
    """Both at once: what a form that shows both leaves behind."""
    new = Notes(tuple(dict.fromkeys(check_tag(tag) for tag in tags)), _checked(text))
    with _changing(run):
        return _write(run, new)


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
    """The notes as they are, while nobody else changes them.

    A file beside it is locked, since the notes are replaced by every change. A file system without
    locks is trusted to have one user.
    """
    require(run)
    with locks.held_file(run.path / ".notes.lock"):
        yield read_notes(run)


def _is_tag(value: Any) -> bool:
    return isinstance(value, str) and _TAG.fullmatch(value) is not None


def _clean(text: Any) -> str:
    """Lines without control and invisible characters, and without empty lines at the ends."""
    if not isinstance(text, str):
        return ""
    lines = [jsonl.line(line) or "" for line in text[:LONGEST_NOTE].splitlines()]
    return "\n".join(line.rstrip() for line in lines).strip("\n")
