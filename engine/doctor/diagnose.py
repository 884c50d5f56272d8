"""What is wrong with a run or a log: text, numbers and rewards joined, the root cause first."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.doctor.finding import Finding
from engine.doctor.text.findings import findings, read_log
from engine.errors import UsageError
from engine.runs.rundir import RunDir
from engine.watch.train_log import Step

if TYPE_CHECKING:
    from engine.watch.columns import Columns

_NAMES_A_CAUSE = 0.4
"""From this confidence on what ended a run stands before what its numbers show."""


def diagnose_file(path: Path) -> list[Finding]:
    """Findings of any program's console log, or of a file of numbers.

    Raises OSError when the file cannot be read, UsageError when it is no file.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise UsageError(f"{path}: not a regular file")
    reader = read_log(path)
    columns = reader.series.columns() or _packed(_steps_of_numbers(path))
    series = _of_series(columns, reader.series.total_steps, str(path))
    return joined(findings(reader, str(path)), series)


def diagnose_run(run: RunDir) -> list[Finding]:
    """Findings of a run's newest attempt: its console, its series, its rewards."""
    from engine.doctor.numbers import number_findings
    from engine.doctor.run_end import with_end
    from engine.runs.state import observed_state
    from engine.watch.columns import Columns
    from engine.watch.train_log import read_steps

    attempts = run.attempts()
    steps = read_steps(run.train_log) if run.train_log.is_file() else ()
    state = observed_state(run)
    numbers = number_findings(run, state, _packed(steps) or Columns())
    if not attempts:
        return numbers
    console = attempts[-1].console
    text = findings(read_log(console), str(console)) if console.is_file() else []
    return joined(with_end(text, state), numbers)


def joined(text: Sequence[Finding], numbers: Sequence[Finding]) -> list[Finding]:
    """What the console tells and what the numbers show, root first, each trouble once."""
    families = {one.family for one in text}
    same = tuple(one for one in numbers if one.family in families)
    others = [one for one in numbers if one.family not in families]
    told = _with_records(text, same) or [*_with(text[:1], same), *text[1:]]
    if told and (told[0].confidence >= _NAMES_A_CAUSE or not _alarms(others)):
        return [*told, *others]
    return [*others, *told]


def _with_records(text: Sequence[Finding], same: Sequence[Finding]) -> list[Finding]:
    """The console repeats what a reward said; its record has the class, the texts and the cure."""
    recorded = [one for one in same if _is_recorded(one)]
    if not text or not recorded or recorded[0].family != text[0].family:
        return []
    others = (text[0], *(one for one in same if one is not recorded[0]))
    return [*_with(recorded[:1], others), *text[1:]]


def _is_recorded(one: Finding) -> bool:
    return any(Path(seen.path or "").name == "reward.jsonl" for seen in one.evidence)


def _with(first: Sequence[Finding], folded: tuple[Finding, ...]) -> list[Finding]:
    return [replace(one, followed_by=(*one.followed_by, *folded)) for one in first]


def _alarms(found: Iterable[Finding]) -> bool:
    return any(one.severity.is_alarm for one in found)


def _steps_of_numbers(path: Path) -> list[Step]:
    """Steps of a file that is no console, such as a JSON-lines log."""
    with path.open("rb") as file:
        if file.read(1) != b"{":
            return []
    from engine.watch.foreign.watch import read_steps

    try:
        return list(read_steps(path))
    except UsageError:
        return []


def _packed(steps: Iterable[Step]) -> Columns | None:
    first = next(every := iter(steps), None)
    if first is None:
        return None
    # numpy: a log without numbers is diagnosed without it.
    from engine.watch.columns import Columns

    columns = Columns()
    columns.add(first)
    for step in every:
        columns.add(step)
    return columns


def _of_series(columns: Columns | None, total: int | None, path: str) -> list[Finding]:
    if columns is None:
        return []
    from engine.doctor.metrics import MetricContext, metric_findings

    return metric_findings(columns, MetricContext(total_steps=total, path=path))
