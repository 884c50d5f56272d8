"""Tags and the note of a run, in ``notes.json`` in its folder.

No process of the run reads or writes that file, so it can be changed at any time.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from engine.base import files, jsonl, locks, typed
from engine.base.errors import UsageError, unknown_name
from engine.base.masking import holds_secret, mask_text
from engine.base.typed import Text
from engine.run.run import Run
from engine.run.trust import require

MOST_TAGS = 20
LONGEST_NOTE = 4000

_TAG = r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,39}\Z"


class Notes(Struct, frozen=True):
    """Valid tags, and text that is safe to show."""

    tags: Annotated[tuple[Annotated[str, Meta(pattern=_TAG)], ...], Meta(max_length=MOST_TAGS)] = ()
    text: Annotated[Text, Meta(max_length=LONGEST_NOTE)] = ""

    def __bool__(self) -> bool:
        return bool(self.tags or self.text)


def check_tag(tag: str) -> str:
    """Return a valid ``tag``; UsageError otherwise."""
    if not is_tag(tag):
        raise UsageError(
            f"tag {tag!r} must be ASCII letters, digits, '.', '_', '-', at most 40 of them"
        )
    if holds_secret(tag):
        raise UsageError(f"tag {tag!r} looks like a secret, and tags are stored with the run")
    return tag


NO_NOTES = Notes()


def read_notes(run: Run) -> Notes:
    """The notes of a run; empty if there are none."""
    notes = typed.read_record(run.notes_file, Notes) or Notes()
    return Notes(tuple(dict.fromkeys(notes.tags)), _clean(notes.text))


def add_tags(run: Run, tags: Iterable[str]) -> Notes:
    """Add tags. Existing ones keep their position."""
    new = [check_tag(tag) for tag in tags]
    with _changing(run) as before:
        all_tags = tuple(dict.fromkeys([*before.tags, *new]))
        return _write(run, Notes(all_tags, before.text))


def remove_tags(run: Run, tags: Iterable[str]) -> Notes:
    """Remove tags. UsageError for a tag that the run does not have."""
    gone = set(tags)
    with _changing(run) as before:
        for tag in gone.difference(before.tags):
            raise unknown_name(f"tag of run {run.id}", tag, before.tags)
        return _write(run, Notes(tuple(t for t in before.tags if t not in gone), before.text))


def write_note(run: Run, text: str) -> tuple[Notes, str]:
    """Replace the note; an empty one removes it. Returns the notes, and the note before."""
    with _changing(run) as before:
        return _write(run, Notes(before.tags, _checked(text))), before.text


class NotesChangedError(UsageError):
    """The note is no longer the one that was edited: it is that of ``now``."""

    def __init__(self, now: Notes) -> None:
        super().__init__(f"the note was changed meanwhile, to: {now.text or '(no note)'}")
        self.now = now


def edit_notes(run: Run, before: Notes, tags: Iterable[str], text: str) -> Notes:
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


def _write(run: Run, notes: Notes) -> Notes:
    if len(notes.tags) > MOST_TAGS:
        raise UsageError(
            f"run '{run.id}' would have {len(notes.tags)} tags; at most {MOST_TAGS} are allowed"
        )
    others = jsonl.read_json(run.notes_file) or {}  # The fields of a later version stay.
    jsonl.write_json(run.notes_file, {"v": 1, **others, **typed.to_json(notes)})
    return notes


def _checked(text: str) -> str:
    if len(text) > LONGEST_NOTE:
        raise UsageError(f"a note is {LONGEST_NOTE} characters at most; this one has {len(text)}")
    return _clean(jsonl.text(mask_text(text)) or "")


@contextlib.contextmanager
def _changing(run: Run) -> Iterator[Notes]:
    """The present notes, locked against other changes.

    The lock is a separate file, since every change replaces the notes. On a file system without
    locks, nothing is locked. UsageError for a file that a change would lose a part of.
    """
    require(run)
    with locks.held_file(run.path / ".notes.lock"):
        if damage := _damage(run.notes_file):
            raise UsageError(f"{run.notes_file}: {damage}. Correct or delete the file")
        yield read_notes(run)


def _damage(file: Path) -> str:
    try:
        content = jsonl.parse_line(files.read_regular(file, jsonl.LARGEST_FILE))
    except FileNotFoundError:
        return ""
    except OSError as error:
        return error.strerror or "cannot be read"
    if content is None:
        return "no JSON object"
    tags, text = content.get("tags", []), content.get("text", "")
    if not isinstance(tags, list) or len(tags) > MOST_TAGS or not all(map(is_tag, tags)):
        return "'tags' is no list of tags"
    return "" if isinstance(text, str) and len(text) <= LONGEST_NOTE else "'text' is no note"


def is_tag(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(_TAG, value) is not None


def _clean(text: str) -> str:
    """Remove spaces at the ends of lines, and empty lines at both ends."""
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")
