"""The doctor of what another program writes: a console, a file of numbers, or both."""

from __future__ import annotations

import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.errors import UsageError
from engine.doctor.console import ConsoleDiagnosis, Stopped, never
from engine.doctor.excerpts import fuller, with_meanings
from engine.doctor.merge import joined
from engine.doctor.text.findings import findings
from engine.doctor.trainer_dialects import framework_of, in_terms_of, is_ours
from engine.findings.finding import Finding

if TYPE_CHECKING:
    from engine.formats.detect import Found
    from engine.formats.watch import ForeignRun
    from engine.history.columns import Columns
    from engine.history.train_log import Step

_AT_ONCE = 4 * 1024 * 1024
_SETTLED_S = 5.0
"""What has not grown for so long is read to its last byte, though no line ends there."""
_OVER_S = 600.0
"""What has not grown for so long is taken for the log of a run that is over."""


@dataclass(frozen=True)
class LogSource:
    """What there is to read. ``path`` is what a person named, or the file that was found there."""

    path: Path
    console: Path | None
    numbers: Found | None = None


def source_of(path: Path) -> LogSource:
    """Of a file of any kind, or of a folder with one known run in it.

    Raises OSError, or UsageError for what is no file and for a folder that tells of no run.
    """
    from engine.formats.watch import open_foreign

    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        return source_of_foreign(open_foreign(path))
    if not stat.S_ISREG(mode):
        raise UsageError(f"{path}: not a regular file")
    try:
        return source_of_foreign(open_foreign(path))
    except UsageError:
        return LogSource(path, path)  # No trainer's log, or of several: its text is still read.


def source_of_foreign(run: ForeignRun) -> LogSource:
    """A console holds its own numbers."""
    from engine.formats.detect import Found

    numbers = None if run.format.is_console else Found(run.path, run.format)
    return LogSource(run.path, run.console, numbers)


@dataclass(frozen=True)
class _Rest:
    """What files are like: size and time of each, and whether they have come to rest."""

    sizes: tuple[tuple[int, int], ...] = ()
    is_settled: bool = False
    is_over: bool = False


class LogDoctor:
    """Asked again and again; each look reads only what is new. Memory is bounded."""

    def __init__(self, source: LogSource) -> None:
        self._source = source
        self._console = ConsoleDiagnosis(source.console) if source.console else None
        self._numbers = _Numbers(source.numbers) if source.numbers else None
        self._rest = _Rest()
        self._found: list[Finding] = []

    def look(self, stopped: Stopped = never, *, whole: bool = False) -> list[Finding]:
        """The findings now, root causes first; OSError when nothing can be read.

        ``whole`` says that no more will come. Else a last line without an end is read once
        nothing was added to it for a while, and the log is whole after a longer while.
        """
        rest = self._at_rest(whole)
        if rest == self._rest:
            return self._found
        found = self._look(stopped, rest)
        if not stopped():
            self._rest, self._found = rest, found
        return found

    def _at_rest(self, whole: bool) -> _Rest:
        found = [self._source.path.stat()]
        if self._source.console is not None:
            with suppress(OSError):
                found.append(self._source.console.stat())
        sizes = tuple((one.st_size, one.st_mtime_ns) for one in found)
        age = time.time() - max(one.st_mtime for one in found)
        is_over = whole or age > _OVER_S
        is_settled = is_over or sizes == self._rest.sizes or age > _SETTLED_S
        return _Rest(sizes, is_settled, is_over)

    def _look(self, stopped: Stopped, rest: _Rest) -> list[Finding]:
        text: list[Finding] = []
        columns, total, reader = None, None, None
        if self._numbers is not None:
            columns = self._numbers.read(ended=rest.is_settled, stopped=stopped)
            total = self._numbers.total_steps
        if self._console is not None:
            reader = self._console.read(ended=rest.is_settled, stopped=stopped)
        if reader is not None:
            text = findings(reader, str(self._source.console), ended=rest.is_settled)
            columns = columns or reader.series.columns()
            total = total or reader.series.total_steps
        found = joined(text, self._of_series(columns, total, rest.is_over))
        files = [path for path in (self._source.console, self._source.path) if path]
        return in_terms_of(framework_of(files, found), found)

    def _of_series(self, columns: Columns | None, total: int | None, over: bool) -> list[Finding]:
        path, console = self._source.path, self._source.console
        is_whole = over and not is_ours(path)
        is_printed = is_whole and console is not None and console.is_file()
        excerpt = fuller(columns, console) if console and is_printed else None
        columns = excerpt.columns if excerpt else columns
        if columns is None:
            return []
        if not is_ours(path):
            columns = with_meanings(columns)
        from engine.doctor.metrics import MetricContext, metric_findings

        context = MetricContext(
            total_steps=total,
            path=str(path),
            is_whole=is_whole,
            is_counted=excerpt is not None and excerpt.is_counted,
        )
        return metric_findings(columns, context)


class _Numbers:
    """Follows a file of numbers, or a folder in which the newest of them counts."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self._seen = (0, 0)
        self._begin()

    def _begin(self) -> None:
        self._reader = self._found.open()
        self._columns: Columns | None = None

    @property
    def total_steps(self) -> int | None:
        return self._reader.about().total_steps

    def read(self, *, ended: bool, stopped: Stopped) -> Columns | None:
        """Every metric until now; None before the first step."""
        from engine.formats.lines import LineReader

        self._begin_anew_unless_same()
        while not stopped():
            news = self._reader.poll(_AT_ONCE)
            self._take(news.steps)
            if news.read_share >= 1 and not news.steps:
                break
        if ended and isinstance(self._reader, LineReader):
            self._take(self._reader.rest())
        return self._columns

    def _begin_anew_unless_same(self) -> None:
        """A file that was cut or replaced tells of nothing that it told before."""
        now = self._found.path.stat()
        node, size = self._seen
        if node and (now.st_ino != node or now.st_size < size):
            self._begin()
        self._seen = (now.st_ino, now.st_size)

    def _take(self, steps: list[Step]) -> None:
        if not steps:
            return
        # numpy: a log without numbers is diagnosed without it.
        from engine.history.batch import Batch
        from engine.history.columns import Columns

        self._columns = self._columns or Columns()
        self._columns.merge(Batch.from_steps(steps))
        self._columns.thin()
