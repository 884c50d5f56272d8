"""The steps of a program without our trainer: read from what it prints, or from a file of metrics.

Nothing is known of such a program. It may print steps late or never, start again at step 1, or
write its log anew from the beginning. A step that says again what was recorded is left out, so
that none is doubled; one with a lower number begins a new start of the program, whose steps
replace the earlier ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError
from engine.base.follow import Tail
from engine.formats.detect import detect, detect_block, find_format
from engine.formats.format import Reader
from engine.formats.names import Numbering
from engine.formats.pattern import PatternFormat, is_pattern
from engine.history.train_log import Step, StepJoiner, read_steps
from engine.runs.kinds import COMMAND
from engine.runs.rundir import Attempt, RunDir

_AT_ONCE = 2 * 1024 * 1024


FindReader = Callable[[], Reader | None]
"""Returns the reader of a program's steps once its format is known."""


def open_steps(
    run: RunDir, attempt: Attempt, manifest: Mapping[str, Any]
) -> StepJoiner | ProgramSteps:
    """What reads the steps of an attempt that are to be written to the run's history."""
    if manifest.get("kind") != COMMAND:
        return StepJoiner(attempt)
    given, console = manifest.get("metrics"), attempt.console
    key, written = manifest.get("format"), read_steps(run.train_log)
    if given is None and key is not None:
        return ProgramSteps(console, partial(find_format(key).open, console), written)
    if given is None:
        return ProgramSteps(console, _ConsoleSearch(console).find, written)
    if is_pattern(given):
        return ProgramSteps(console, partial(PatternFormat(given).open, console), written)
    path = Path(manifest.get("cwd") or ".") / given
    is_adopted = "adopted" in manifest  # What such a file holds is the run, not an earlier one.
    search = _FileSearch(path, key)
    return ProgramSteps(console, search.find, written, is_of_attempt=is_adopted)


class ProgramSteps:
    """Follows what a program writes. ``written`` are the steps that its history has.

    ``is_of_attempt``: whether everything in the source is of this attempt. A file of metrics may
    hold steps of earlier runs.
    """

    def __init__(
        self,
        console: Path,
        find: FindReader,
        written: Iterable[Step] = (),
        *,
        is_of_attempt: bool = True,
    ) -> None:
        self.is_of_attempt = is_of_attempt
        self._console = console
        self._find = find
        self._reader: Reader | None = None
        self._numbering = Numbering()
        self._seen: set[int] = set()
        self.progress = 0
        """Bytes printed so far: a program that prints something does not hang."""
        for step in written:
            self._numbered(step)

    def skip_existing(self) -> None:
        """Leave out what a file of metrics holds before the program starts: an earlier run's."""
        if not self.is_of_attempt:
            for _ in self._read():
                pass

    @property
    def total_steps(self) -> int | None:
        """The number of steps that the program says; None where it says none."""
        return self._reader.about().total_steps if self._reader else None

    def new_steps(self) -> list[Step]:
        """The steps logged since the last call."""
        with suppress(OSError):
            self.progress = self._console.stat().st_size
        now = time.time()
        steps = (self._numbered(step) for step in self._read())
        return [step if step.time else replace(step, time=now) for step in steps if step]

    def _read(self) -> Iterator[Step]:
        self._reader = self._reader or self._find()
        if self._reader is None:
            return
        while (news := self._reader.poll(_AT_ONCE)).read_share < 1.0:
            yield from news.steps
        yield from news.steps
        yield from self._reader.poll(_AT_ONCE).steps  # The last part is smaller than a poll.

    def _numbered(self, step: Step) -> Step | None:
        """The step as one of the program's starts; None for one that was recorded before."""
        content = hash((step.step, tuple(step.metrics.items())))
        if content in self._seen:
            return None
        self._seen.add(content)
        return self._numbering.step(step.step, dict(step.metrics), step.time)


class _ConsoleSearch:
    """Looks for the first line that shows a format. Every line is examined once."""

    def __init__(self, console: Path) -> None:
        self._console = console
        self._unknown = Tail(console)

    def find(self) -> Reader | None:
        while block := self._unknown.block(_AT_ONCE):
            if (log_format := detect_block(self._console, block)) is not None:
                return log_format.open(self._console)
        return None


class _FileSearch:
    """Looks for the file, or the folder with one run, that the user named."""

    def __init__(self, path: Path, as_format: str | None) -> None:
        self._path, self._as_format = path, as_format
        self._due = 0.0

    def find(self) -> Reader | None:
        now = time.monotonic()
        if now < self._due or not self._path.exists():
            return None
        try:
            return detect(self._path, self._as_format).open()
        except (UsageError, OSError):
            # A folder may take long to search: that must stay cheap on average.
            self._due = time.monotonic() + 20 * (time.monotonic() - now)
            return None
