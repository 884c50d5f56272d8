"""The steps of a program without our trainer: read from what it prints, or from a file of metrics.

Nothing is known of such a program. It may print steps late or never, start again at step 1, or
write its log anew from the beginning. A step that says again what was recorded is left out, so
that none is doubled; one with a lower number begins a new start of the program, whose steps
replace the earlier ones.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from engine.base import files
from engine.base.errors import UsageError
from engine.base.follow import Tail
from engine.logs.formats.detect import detect, detect_block, find_format
from engine.logs.formats.format import Reader
from engine.logs.formats.names import Numbering
from engine.logs.formats.pattern import PatternFormat, is_pattern
from engine.run.history.train_log import Step, StepJoiner, read_steps
from engine.run.manifest import Manifest
from engine.run.run import Attempt, Run
from engine.supervise.hosts import find_host

_AT_ONCE = 2 * 1024 * 1024
_LAST_PARTS = 2
"""A log counts as read when no more than a small part is left, which the next poll reads."""

FindReader = Callable[[float], Reader | None]
"""Returns the reader of a program's steps once its format is known, searching until then."""


def open_steps(run: Run, attempt: Attempt, manifest: Manifest) -> StepJoiner | ProgramSteps:
    """What reads the steps of an attempt that are to be written to the run's history."""
    if not manifest.is_command:
        return StepJoiner(attempt)
    given, console = manifest.metrics, attempt.console
    key, written = manifest.format, read_steps(run.train_log)
    if given is None and key is not None:
        return ProgramSteps(console, lambda _: find_format(key).open(console), written)
    if given is None:
        return ProgramSteps(console, _ConsoleSearch(console).find, written)
    if is_pattern(given):
        return ProgramSteps(console, lambda _: PatternFormat(given).open(console), written)
    path = manifest.working_folder / given
    search = _FileSearch(path, key)
    ran_before = find_host(run, manifest).ran_before
    return ProgramSteps(console, search.find, written, is_of_attempt=ran_before)


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
        self._unseen: deque[Step] = deque()
        """Steps that were read; whoever takes them may fail in between."""
        self.progress = 0
        """Bytes printed so far: a program that prints something does not hang."""
        self.is_behind = False
        """Whether there may be more than the last call has read."""
        for step in written:
            self._numbered(step)

    def skip_existing(self) -> None:
        """Leave out what a file of metrics holds before the program starts: an earlier run's."""
        if not self.is_of_attempt:
            for _ in self._read(math.inf):
                pass

    @property
    def total_steps(self) -> int | None:
        """The number of steps that the program says; None where it says none."""
        return self._reader.about().total_steps if self._reader else None

    def new_steps(self, until: float = math.inf) -> Iterator[Step]:
        """The steps logged since the last call, read for no longer than ``until`` (monotonic): a
        program may print faster than anybody reads.

        OSError when the source cannot be read, after the steps that could; none of them is lost.
        """
        self.progress = max(self.progress, files.size_of(self._console))
        now = time.time()
        for step in filter(None, (self._numbered(step) for step in self._read(until))):
            yield step if step.time else replace(step, time=now)

    def _polled(self) -> Iterator[Step]:
        while self._unseen:
            yield self._unseen.popleft()

    def _read(self, until: float) -> Iterator[Step]:
        yield from self._polled()
        self._reader = self._reader or self._find(until)
        parts = 0 if self._reader is None else _LAST_PARTS
        while parts and self._reader is not None:
            news = self._reader.poll(_AT_ONCE)
            self._unseen.extend(news.steps)
            yield from self._polled()
            if self._reader.trouble is not None:
                raise self._reader.trouble
            parts -= news.read_share == 1.0
            if parts and time.monotonic() >= until:
                break
        self.is_behind = time.monotonic() >= until

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

    def find(self, until: float) -> Reader | None:
        while block := self._unknown.block(_AT_ONCE):
            if (log_format := detect_block(self._console, block)) is not None:
                return log_format.open(self._console)
            if time.monotonic() >= until:
                return None
        if self._unknown.trouble is not None:
            raise self._unknown.trouble
        return None


class _FileSearch:
    """Looks for the file, or the folder with one run, that the user named."""

    def __init__(self, path: Path, as_format: str | None) -> None:
        self._path, self._as_format = path, as_format
        self._due = 0.0

    def find(self, until: float) -> Reader | None:
        now = time.monotonic()
        if now < self._due or not self._path.exists():
            return None
        try:
            return detect(self._path, self._as_format).open()
        except (UsageError, OSError) as error:
            if files.is_trouble(error):
                raise
            # A folder may take long to search: that must stay cheap on average.
            self._due = time.monotonic() + 20 * (time.monotonic() - now)
            return None
