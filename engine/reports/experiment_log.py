"""The experiment log: one Markdown entry per experiment, newest last, IDs never reused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from engine.base.errors import UsageError
from engine.reports.entry import UNTIL, LogEntry, draft_entry, render
from engine.reports.numbered_log import NumberedLog

__all__ = ["LogEntry", "append_entry", "draft_entry", "experiment_log", "next_id", "render"]


def experiment_log(path: Path) -> NumberedLog:
    return NumberedLog(path, "EXP", "# Experiment log\n")


def next_id(text: str) -> str:
    """The ID after the highest one used in a log."""
    return experiment_log(Path()).next_id(text)


def append_entry(path: Path, entry: LogEntry, *, force: bool = False) -> str:
    """Append ``entry`` to the log and return its ID, creating the file if it is missing.

    An ID that is empty or taken by now is replaced with the next free one. Raises UsageError if
    the run already has an entry from after its end (unless ``force``) or the file cannot be read
    or written.
    """
    log = experiment_log(path)

    def check(text: str) -> None:
        line = f"- **Run:** `{entry.run}`"
        earlier = log.find(text, line, unless=f"- **{UNTIL}:**") if entry.run else None
        if earlier is not None and not force:
            raise UsageError(f"{path}: run '{entry.run}' already has an entry, {earlier}")

    return log.append(
        lambda number: render(replace(entry, id=number)), wanted=entry.id, check=check
    )
