"""Diagnoses the output of other programs: a console log, a metrics file, or both."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.errors import UsageError
from engine.base.follow import RESTARTS, FileFollower
from engine.doctor.excerpts import fuller, size, with_meanings
from engine.doctor.finding_kinds import KINDS
from engine.doctor.merge import merge_findings
from engine.doctor.run_end import soften_ray
from engine.doctor.text.findings import ConsoleDiagnosis, Stopped, never
from engine.doctor.trainer_dialects import framework_of, in_terms_of, is_ours, read_ends
from engine.run.checkpoints.step_folders import step_of, step_problem
from engine.run.finding import Evidence, Finding
from engine.run.finding_kind import Case

if TYPE_CHECKING:
    from engine.logs.formats.detect import Detected
    from engine.logs.formats.external_run import ExternalRun
    from engine.logs.formats.format import About
    from engine.run.history.columns import Columns
    from engine.run.history.train_log import Step

_SAVED = re.compile(rb"(?:checkpoint-|global_step_?|iter_0*)(\d{1,12})")
"""The folder of a checkpoint, as HF's Trainer, verl and Megatron name it."""
_NO_REWARD = re.compile(rb"['\"]reward['\"]: ?(?:None|null)\b")
_REWARD = re.compile(rb"['\"]rewards?(?:/[\w/]+)?['\"]: ?['\"]?[-\d]")
_FEWEST_RECORDS = 3
_AT_ONCE = 4 * 1024 * 1024
_SETTLED_S = 5.0
"""A file that has not grown for so long is read to its last byte, even if no line ends there."""
_OVER_S = 600.0
"""A log that has not grown for so long counts as that of an ended run."""


@dataclass(frozen=True)
class LogSource:
    """``path`` is what the user named, or the file found there; ``console`` is the text.

    ``numbers`` are the logs whose steps are read: a text of unknown format is read in every console
    format.
    """

    path: Path
    console: Path | None
    numbers: tuple[Detected, ...]


def source_of(path: Path) -> LogSource:
    """Return the source of a file, or of a folder that holds one run of a known format.

    Raises OSError, and UsageError for a folder without such a run or a path that is no file.
    """
    from engine.logs.formats.detect import Detected, formats
    from engine.logs.formats.external_run import open_external

    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        return source_of_external(open_external(path))
    if not stat.S_ISREG(mode):
        raise UsageError(f"{path}: not a regular file")
    try:
        return source_of_external(open_external(path))
    except UsageError:  # No trainer's log, or of several.
        consoles = (Detected(path, log_format) for log_format in formats() if log_format.is_console)
        return LogSource(path, path, tuple(consoles))


def source_of_external(run: ExternalRun) -> LogSource:
    from engine.logs.formats.detect import Detected

    return LogSource(run.path, run.console, (Detected(run.path, run.format),))


def _saved_steps(path: Path, console: Path | None) -> list[int]:
    """Return the steps of the complete checkpoints beside a log; without any checkpoint there, of
    those that the log's ends name."""
    folder = path if path.is_dir() else path.parent
    beside = [
        (int(match[1]), entry)
        for parent in (folder, folder / "checkpoints")
        if parent.is_dir()
        for entry in parent.iterdir()
        if (match := _SAVED.fullmatch(os.fsencode(entry.name))) and entry.is_dir()
    ]
    if beside or console is None:
        return [step for step, checkpoint in beside if _is_whole(checkpoint)]
    return [int(match[1]) for match in _SAVED.finditer(read_ends(console))]


def _is_whole(checkpoint: Path) -> bool:
    if step_of(checkpoint) is not None:
        return step_problem(checkpoint) is None
    # HF's Trainer writes its state after the model and the optimizer.
    is_of_hf = checkpoint.name.startswith("checkpoint-")
    return not is_of_hf or (checkpoint / "trainer_state.json").is_file()


def _unrewarded(files: Sequence[Path]) -> list[Finding]:
    """Return a finding if no reward function of TRL returned a reward in any record."""
    for file in files:
        text = read_ends(file)
        count = len(_NO_REWARD.findall(text))
        if count >= _FEWEST_RECORDS and not _REWARD.search(text):
            evidence = Evidence(f"the reward is None in {count:,} records", str(file))
            finding_kind = KINDS["reward_function_error.none"]
            return [finding_kind.finding(Case(), evidence, records=f"{count:,}")]
    return []


@dataclass(frozen=True)
class _Activity:
    """Size and time of each file, and whether the files still change."""

    sizes: tuple[tuple[int, int], ...] = ()
    is_settled: bool = False
    is_over: bool = False


class LogDoctor:
    """Diagnoses a growing log; each call reads only new data. Memory is bounded."""

    def __init__(self, source: LogSource) -> None:
        self._source = source
        self._console = ConsoleDiagnosis(source.console) if source.console else None
        self._numbers = [_Numbers(log) for log in source.numbers]
        self._activity = _Activity()
        self._findings: list[Finding] = []

    @property
    def columns(self) -> Columns | None:
        """Return all metrics that ``diagnose`` has read; None before the first step."""
        return self._richest.columns

    @property
    def _richest(self) -> _Numbers:
        return max(self._numbers, key=_Numbers.count)

    def diagnose(self, stopped: Stopped = never, *, ended: bool = False) -> list[Finding]:
        """Return the current findings, root causes first. Raises OSError if nothing can be read.

        ``ended`` means that the log is complete. Otherwise an incomplete last line is read after
        5 s without new output, and the log counts as ended after 10 minutes.
        """
        activity = self._read_activity(ended)
        if activity == self._activity:
            return self._findings
        text: list[Finding] = []
        if self._console is not None:
            text = self._console.findings(ended=activity.is_settled, stopped=stopped)
        if not activity.is_over:
            text = soften_ray(text)
        for numbers in self._numbers:
            numbers.read(ended=activity.is_settled, stopped=stopped)
        series = self._series_findings(self._richest, activity.is_over)
        paths = (self._source.console, self._source.path)
        files = [path for path in dict.fromkeys(paths) if path and path.is_file()]
        findings = merge_findings([*_unrewarded(files), *text], series)
        findings = in_terms_of(framework_of(files, findings), findings)
        if not stopped():
            self._activity, self._findings = activity, findings
        return findings

    def _read_activity(self, ended: bool) -> _Activity:
        statuses = [self._source.path.stat()]
        if self._source.console is not None:
            with suppress(OSError):
                statuses.append(self._source.console.stat())
        sizes = tuple((status.st_size, status.st_mtime_ns) for status in statuses)
        age = time.time() - max(status.st_mtime for status in statuses)
        is_over = ended or age > _OVER_S
        is_settled = is_over or sizes == self._activity.sizes or age > _SETTLED_S
        return _Activity(sizes, is_settled, is_over)

    def _series_findings(self, numbers: _Numbers, is_over: bool) -> list[Finding]:
        path, console = self._source.path, self._source.console
        is_whole = is_over and not is_ours(path)
        is_printed = is_whole and console is not None and console.is_file()
        columns, about, excerpt = numbers.columns, numbers.about(), None
        if console and is_printed:
            excerpt = fuller(columns, console, numbers.is_general)
        columns = excerpt.columns if excerpt else columns
        if columns is None:
            return []
        if not is_ours(path):
            columns = with_meanings(columns)
        from engine.doctor.metrics import RuleContext, metric_findings

        context = RuleContext(
            total_steps=about.total_steps,
            path=str(path),
            is_whole=is_whole,
            is_counted=excerpt is not None and excerpt.is_counted,
            checkpoints=tuple(_saved_steps(path, console)),
            model=about.model or "",
        )
        return metric_findings(columns, context)


class _Numbers:
    """Follows the steps of a log, or of the newest file of a folder."""

    def __init__(self, log: Detected) -> None:
        self._log = log
        self._follower = FileFollower(log.path)
        self._begin()

    def _begin(self) -> None:
        self._reader = self._log.open()
        self._history: Columns | None = None
        self.columns: Columns | None = None
        """Every metric so far; None before the first step."""

    @property
    def is_general(self) -> bool:
        """Whether the format gives names no fixed meaning."""
        return self._log.format.is_general

    def about(self) -> About:
        return self._reader.about()

    def count(self) -> int:
        """Return the number of values that were read."""
        return 0 if self.columns is None else size(self.columns)

    def read(self, *, ended: bool, stopped: Stopped) -> None:
        """Read new lines; with ``ended`` also an incomplete last line."""
        # Steps of a truncated or replaced file are void, and so is the state of its reader.
        if self._follower.poll() in RESTARTS:
            self._begin()
        while not stopped():
            news = self._reader.poll(_AT_ONCE)
            self._history = _with_steps(self._history, news.steps)
            if news.read_share >= 1 and not news.steps:
                break
        if (file := self._follower.file) is not None:
            file.read_to(file.size())
        torn = self._reader.rest() if ended else []
        # An incomplete line may still grow: its values stay out of the history.
        history = self._history.frozen() if self._history is not None and torn else self._history
        self.columns = _with_steps(history, torn)


def _with_steps(columns: Columns | None, steps: list[Step]) -> Columns | None:
    if not steps:
        return columns
    # numpy: a log without numbers is diagnosed without it.
    from engine.run.history.columns import Batch, Columns

    columns = columns or Columns()
    columns.merge(Batch.from_steps(steps))
    columns.thin()
    return columns
