"""The health of a run, for every list, screen and command.

A finished or running run may be unhealthy. The doctor needs tens of milliseconds or more for a
run, so the health of finished runs is cached beside the index of runs. An entry is valid for one
state of the run's files and of the doctor's rules.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import Struct

from engine.base.typed import Integer, Line, to_json
from engine.run.columns import RunRow
from engine.run.finding import Finding, Severity
from engine.run.index import Index, index_path, stamp
from engine.run.run import Run
from engine.run.state import RunState, observed_state

Stopped = Callable[[], bool]

_SEVERE = (Severity.CRITICAL, Severity.ERROR)
_EXAMINED = ("finished", "running")
"""States in which metrics may be unhealthy; every other state is itself a warning or an error."""
EXAMINE_AGAIN_S = 10.0
"""Seconds between two examinations of a running run that has logged new steps."""
_RULES = Path(__file__).parent


@dataclass(frozen=True)
class Health:
    """``finding`` is the root cause of an unhealthy run; None for a healthy run.

    ``is_known`` is False until the doctor has examined the run. A finding that comes from the
    cache has no evidence, cause or fixes.
    """

    is_known: bool = True
    finding: Finding | None = None

    @property
    def phrase(self) -> str:
        """``unhealthy: Gradients grew to 939 since step 3``; empty for a healthy run."""
        if not self.is_known:
            return "not examined"
        if self.finding is None:
            return ""
        since = f" since {self.finding.onset}" if self.finding.onset else ""
        return f"unhealthy: {self.finding.title}{since}"

    def to_json(self) -> dict[str, object]:
        word = "unhealthy" if self.finding else "healthy" if self.is_known else "not examined"
        return {"state": word, "finding": to_json(_brief(self.finding))}


UNKNOWN = Health(is_known=False)


def health_of(
    run: Run, state: RunState | None = None, stopped: Stopped = lambda: False
) -> Health | None:
    """Let the doctor examine a finished, stopped or running run.

    None for a run in another state, and for a running one without a severe finding, which may still
    become unhealthy. ``UNKNOWN`` if the files of a finished run could not be examined, or if
    ``stopped`` ended the examination early.
    """
    state = state or observed_state(run)
    if not is_examined(state):
        return None
    health = _examined(run, stopped)
    is_open = state.state == "running" and health.finding is None
    return None if is_open else health


def is_examined(state: RunState) -> bool:
    """Return whether the doctor examines a run in that state."""
    return state.state in _EXAMINED


def _examined(run: Run, stopped: Stopped) -> Health:
    from engine.doctor.live import RunFollower  # numpy: not needed if all is cached.

    with suppress(Exception):  # A directory being deleted, a rule that fails.
        findings = RunFollower(run).diagnose(stopped)[1]
        return UNKNOWN if stopped() else health_from(findings)
    return UNKNOWN


def health_from(findings: Iterable[Finding]) -> Health:
    """Return the health of a run with these findings."""
    return Health(
        finding=next((finding for finding in findings if finding.severity in _SEVERE), None)
    )


def format_health(health: Health | None) -> str:
    """Return ``healthy`` or what the doctor found; empty for a run that has not finished."""
    return "" if health is None else health.phrase or "healthy"


class _Brief(Struct, frozen=True):
    """What the cache holds of a finding."""

    id: Line
    severity: Severity
    title: Line
    onset_step: Integer | None


class _Row(Struct, frozen=True):
    """``finding`` is None for a healthy run."""

    finding: _Brief | None


class HealthBook:
    """The health of the runs of one directory, cached in the user's cache directory."""

    def __init__(self, root: Path, path: Path | None = None) -> None:
        self._root, self._folder = root, str(root)
        self._index = Index(root, _Row, path or index_path().with_name("health-1.sqlite"))
        self._rules = _rules_stamp()
        self._rows: dict[str, tuple[str, _Row]] | None = None

    def of(self, row: RunRow) -> Health | None:
        """Return the cached health of a run; None for one that has not finished."""
        if row.state.state != "finished":
            return None
        if self._rows is None:
            self._rows = self._index.read()
        cached, kept = self._rows.get(row.id, ("", _Row(None)))
        return _health(kept) if cached and cached == self._stamp(row) else UNKNOWN

    def examine(self, row: RunRow, stopped: Stopped = lambda: False) -> Health | None:
        """Return the cached health, else the doctor's result, which is then cached."""
        if row.state.state == "running":  # Its files change: no entry is valid.
            return health_of(Run(self._root / row.id), row.state, stopped)
        cached = self.of(row)
        if cached is None or cached.is_known:
            return cached
        # Taken before reading: a change in between is noticed next time.
        before = self._stamp(row)
        health = health_of(Run(self._root / row.id), row.state, stopped)
        if health is not None and health.is_known:
            entry = (before, _Row(_brief(health.finding)))
            self._rows = {**(self._rows or {}), row.id: entry}
            self._index.update({row.id: entry}, gone=set())
        return health

    def examine_all(self, runs: Iterable[RunRow], budget_s: float) -> Mapping[str, Health | None]:
        """Return the health by run ID. Unexamined runs are examined, running ones first, until
        ``budget_s`` seconds of CPU time are spent; the others stay unknown. CPU time, so that a
        busy machine examines as many runs as an idle one."""
        rows = list(runs)
        health_by_id = {row.id: self.of(row) for row in rows}
        running = [row for row in rows if row.state.state == "running"]
        unknown = [*running, *(row for row in rows if health_by_id[row.id] is UNKNOWN)]
        if not unknown or budget_s <= 0:
            return health_by_id
        import engine.doctor.live  # noqa: F401 - loading the rules does not count

        spent = time.process_time
        deadline = spent() + budget_s
        for row in unknown:
            if spent() >= deadline:
                break
            # One log may be very long: stop at twice the budget.
            health_by_id[row.id] = self.examine(row, lambda: spent() > deadline + budget_s)
        return health_by_id

    def _stamp(self, row: RunRow) -> str:
        # Strings: path objects for ten thousand runs would take most of the time.
        folder, state = f"{self._folder}/{row.id}", row.state
        log = _stamp(f"{folder}/train_log.jsonl")
        console = _stamp(f"{folder}/attempt_{max(1, state.attempt)}/console.log")
        return f"{self._rules} {state.ended} {log} {console}"


def _stamp(file: str) -> str:
    try:
        return stamp(file)
    except OSError:
        return "-"


def _rules_stamp() -> str:
    """Return a stamp of the doctor's code and rules: a new one invalidates the cache."""
    size, newest = 0, 0
    for folder, _, names in os.walk(_RULES):
        for name in names:
            if name.endswith((".py", ".yaml")):
                status = os.stat(f"{folder}/{name}")  # noqa: PTH116 - a hundred files
                size, newest = size + status.st_size, max(newest, status.st_mtime_ns)
    return f"{size}:{newest}"


def _brief(finding: Finding | None) -> _Brief | None:
    return None if finding is None else msgspec.convert(finding, _Brief, from_attributes=True)


def _health(row: _Row) -> Health:
    brief = row.finding
    return Health(finding=Finding(**msgspec.structs.asdict(brief), cause="") if brief else None)


if __name__ == "__main__":
    health = health_of(Run(Path(sys.argv[1])))
    print(health.phrase if health is not None and health.finding is not None else "")
