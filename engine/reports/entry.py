"""One entry of the experiment log, and how it looks in Markdown."""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.base.masking import mask_text

NO_ID = "EXP-?"
"""Stands for the id of an entry that is not in the log yet."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# What would open a heading, a fence, a rule or a comment if a person's line began with it.
_STRUCTURE = re.compile(r"^(\s*)(#|```|~~~|<|(?:=+|-+|\*{3,}|_{3,})\s*$)")


@dataclass(frozen=True)
class LogEntry:
    """An entry as a person edits it: text fields, lines separated by newlines.

    An empty ``id`` is given when the entry is appended; empty fields are left out.
    """

    title: str
    run: str
    date: str
    id: str = ""
    question: str = ""
    config: str = ""
    duration: str = ""
    result: str = ""
    observations: str = ""
    decision: str = ""
    directory: str = ""
    checkpoint: str = ""


def render(entry: LogEntry) -> str:
    """The entry as Markdown: ``### [EXP-007] title``, then one bold label per field."""
    run = _one_line(entry.run)
    fields = (
        ("Date", entry.date),
        ("Run", f"`{run}` ({_one_line(entry.directory)})" if run else ""),
        ("Research question", entry.question),
        ("Config", entry.config),
        ("Duration", entry.duration),
        ("Result", entry.result),
        ("Checkpoint", entry.checkpoint),
        ("Observations", entry.observations),
        ("Decision", entry.decision),
    )
    lines = [_field(label, text) for label, text in fields if text.strip()]
    heading = f"### [{_one_line(entry.id) or NO_ID}] {_one_line(entry.title) or run}"
    return mask_text("\n".join([heading, "", *lines]) + "\n")


def _field(label: str, text: str) -> str:
    first, *others = [_safe(line) for line in text.strip().splitlines()]
    if not others:
        return f"- **{label}:** {first}"
    return "\n".join([f"- **{label}:**", *(f"  {line}".rstrip() for line in (first, *others))])


def _safe(line: str) -> str:
    r"""A line that stays inside its field: ``## x`` becomes ``\## x``."""
    return _STRUCTURE.sub(r"\1\\\2", _CONTROL.sub("", line))


def _one_line(text: str) -> str:
    return _CONTROL.sub("", " ".join(text.split()))
