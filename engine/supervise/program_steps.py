"""The steps of a program without our trainer: read from what it prints, in any known format.

Nothing is known of such a program. It may print steps late or never, start again at step 1, or
write its log anew from the beginning. A step that says again what was recorded is left out, so
that none is doubled; one with a lower number begins a new start of the program, whose steps
replace the earlier ones.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.base.follow import Tail
from engine.formats.detect import detect_block
from engine.formats.format import Reader
from engine.formats.names import Numbering
from engine.history.train_log import Step, StepJoiner, read_steps
from engine.runs.kinds import COMMAND
from engine.runs.rundir import Attempt, RunDir

_AT_ONCE = 2 * 1024 * 1024


def open_steps(
    run: RunDir, attempt: Attempt, manifest: Mapping[str, Any]
) -> StepJoiner | ProgramSteps:
    """What reads the steps of an attempt that are to be written to the run's history."""
    if manifest.get("kind") != COMMAND:
        return StepJoiner(attempt)
    return ProgramSteps(attempt.console, read_steps(run.train_log))


class ProgramSteps:
    """Follows the console log of a program. ``written`` are the steps that its history has."""

    def __init__(self, console: Path, written: Iterable[Step] = ()) -> None:
        self._console = console
        self._unknown = Tail(console)
        self._reader: Reader | None = None
        self._numbering = Numbering()
        self._seen: set[int] = set()
        self.progress = 0
        """Bytes printed so far: a program that prints something does not hang."""
        for step in written:
            self._numbered(step)

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
        self._reader = self._reader or self._open()
        if self._reader is None:
            return
        while (news := self._reader.poll(_AT_ONCE)).read_share < 1.0:
            yield from news.steps
        yield from news.steps
        yield from self._reader.poll(_AT_ONCE).steps  # The last part is smaller than a poll.

    def _open(self) -> Reader | None:
        """The reader of the log's format, once a line shows it. Every line is examined once."""
        while block := self._unknown.block(_AT_ONCE):
            if (log_format := detect_block(self._console, block)) is not None:
                return log_format.open(self._console)
        return None

    def _numbered(self, step: Step) -> Step | None:
        """The step as one of the program's starts; None for one that was recorded before."""
        content = hash((step.step, tuple(step.metrics.items())))
        if content in self._seen:
            return None
        self._seen.add(content)
        return self._numbering.step(step.step, dict(step.metrics), step.time)
