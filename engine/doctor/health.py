"""Whether a run is any good: one verdict for every list, screen and command.

A run that did all its steps may be worthless, and one that still runs, too. The doctor needs tens
of milliseconds and more for a run, so verdicts on finished runs are cached beside the index of
runs, each valid for one state of the run's files and of the doctor's rules.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.findings.finding import Finding, Severity
from engine.runs.columns import RunInfo
from engine.runs.index import Index, Row, index_path, stamp
from engine.runs.rundir import RunDir
from engine.runs.state import RunState, observed_state

Stopped = Callable[[], bool]

_GRAVE = (Severity.CRITICAL, Severity.ERROR)
_EXAMINED = ("finished", "running")
"""States that say nothing of a run's numbers; every other state is a warning or an error itself."""
EXAMINE_AGAIN_S = 10.0
"""Seconds between two examinations of a run that still trains and has logged new steps."""
_RULES = Path(__file__).parent


@dataclass(frozen=True)
class Health:
    """``finding`` is the root of what makes a run's numbers useless; None for a healthy run.

    ``is_known`` is False until the doctor has examined the run. A finding that comes from the
    cache has no evidence, cause or remedies.
    """

    is_known: bool = True
    finding: Finding | None = None

    @property
    def phrase(self) -> str:
        """``unhealthy: Gradients grew to 939 since step 3``, to stand behind the state. Empty for
        a healthy run."""
        if not self.is_known:
            return "not examined"
        if self.finding is None:
            return ""
        since = f" since {self.finding.onset}" if self.finding.onset else ""
        return f"unhealthy: {self.finding.title}{since}"

    def to_json(self) -> dict[str, Any]:
        word = "unhealthy" if self.finding else "healthy" if self.is_known else "not examined"
        return {"state": word, "finding": _row_of(self.finding)}


UNKNOWN = Health(is_known=False)
_HEALTHY = Health()


def health_of(
    run: RunDir, state: RunState | None = None, stopped: Stopped = lambda: False
) -> Health | None:
    """Let the doctor examine a finished, stopped or running run.

    None for a run in another state, which says itself what is wrong, and for a running one without
    a grave finding, which may still become unhealthy; ``UNKNOWN`` where the files of a finished
    one could not be examined, or where ``stopped`` broke the examination off.
    """
    known = state or observed_state(run)
    if not is_examined(known):
        return None
    health = _examined(run, stopped)
    is_open = known.state == "running" and health.finding is None
    return None if is_open else health


def is_examined(state: RunState) -> bool:
    """Whether the doctor has a say on a run in that state."""
    return state.state in _EXAMINED


def _examined(run: RunDir, stopped: Stopped) -> Health:
    from engine.doctor.live import RunFollower  # numpy: a list with all verdicts does without.

    with suppress(Exception):  # A folder that is being deleted, a rule that breaks.
        findings = RunFollower(run).look(stopped)[1]
        return UNKNOWN if stopped() else health_from(findings)
    return UNKNOWN


def health_from(findings: Iterable[Finding]) -> Health:
    """The verdict on a run of which the doctor has said everything."""
    return Health(finding=next((one for one in findings if one.severity in _GRAVE), None))


class HealthBook:
    """The verdicts on the runs of one folder, cached in the user's cache directory."""

    def __init__(self, root: Path, path: Path | None = None) -> None:
        self._root, self._folder = root, str(root)
        self._index = Index(root, path or index_path().with_name("health-1.sqlite"))
        self._rules = _rules_stamp()
        self._known: dict[str, tuple[str, Row]] | None = None

    def of(self, info: RunInfo) -> Health | None:
        """What is cached of a run; None for one that has not finished."""
        if info.state.state != "finished":
            return None
        if self._known is None:
            self._known = self._index.read()
        cached, row = self._known.get(info.id, ("", {}))
        return _from_row(row) if cached and cached == self._stamp(info) else UNKNOWN

    def examine(self, info: RunInfo, stopped: Stopped = lambda: False) -> Health | None:
        """The cached verdict, else the doctor's, which is then cached."""
        if info.state.state == "running":  # Its files change: what is cached is never valid.
            return health_of(RunDir(self._root / info.id), info.state, stopped)
        known = self.of(info)
        if known is None or known.is_known:
            return known
        # Older than what is read now: a change in between is seen next time.
        before = self._stamp(info)
        health = health_of(RunDir(self._root / info.id), info.state, stopped)
        if health is not None and health.is_known:
            entry = (before, {"finding": _row_of(health.finding)})
            self._known = {**(self._known or {}), info.id: entry}
            self._index.update({info.id: entry}, gone=set())
        return health

    def examine_all(self, runs: Iterable[RunInfo], budget_s: float) -> Mapping[str, Health | None]:
        """The verdicts by id. Runs that nobody examined before are examined, running ones first,
        until ``budget_s`` seconds of CPU are spent; the rest stays unknown. On a busy machine
        as many are examined as on an idle one."""
        infos = list(runs)
        verdicts = {info.id: self.of(info) for info in infos}
        running = [info for info in infos if info.state.state == "running"]
        unknown = [*running, *(info for info in infos if verdicts[info.id] is UNKNOWN)]
        if not unknown:
            return verdicts
        import engine.doctor.live  # noqa: F401 - to load the rules is not to examine

        spent = time.process_time
        deadline = spent() + budget_s
        for info in unknown:
            if spent() >= deadline:
                break
            # One log may be very long: what takes twice the budget is given up.
            verdicts[info.id] = self.examine(info, lambda: spent() > deadline + budget_s)
        return verdicts

    def _stamp(self, info: RunInfo) -> str:
        # Text: making path objects for ten thousand runs would take longer than all else.
        folder, state = f"{self._folder}/{info.id}", info.state
        log = _stamp(f"{folder}/train_log.jsonl")
        console = _stamp(f"{folder}/attempt_{max(1, state.attempt)}/console.log")
        return f"{self._rules} {state.ended} {log} {console}"


def _stamp(file: str) -> str:
    try:
        return stamp(file)
    except OSError:
        return "-"


def _rules_stamp() -> str:
    """Changes with the doctor: a verdict of other rules is worth nothing."""
    size, newest = 0, 0
    for folder, _, names in os.walk(_RULES):
        for name in names:
            if name.endswith((".py", ".yaml")):
                status = os.stat(f"{folder}/{name}")  # noqa: PTH116 - a hundred files
                size, newest = size + status.st_size, max(newest, status.st_mtime_ns)
    return f"{size}:{newest}"


def _row_of(finding: Finding | None) -> Row | None:
    if finding is None:
        return None
    return {
        "id": finding.id,
        "severity": str(finding.severity),
        "title": finding.title,
        "onset_step": finding.onset_step,
    }


def _from_row(row: Row) -> Health:
    """UNKNOWN for a row that another program wrote."""
    try:
        raw = row["finding"]
        if raw is None:
            return _HEALTHY
        severity = Severity(raw["severity"])
        step = None if raw["onset_step"] is None else int(raw["onset_step"])
        finding = Finding(str(raw["id"]), severity, str(raw["title"]), "", onset_step=step)
    except (KeyError, TypeError, ValueError):
        return UNKNOWN
    return Health(finding=finding)


if __name__ == "__main__":
    verdict = health_of(RunDir(Path(sys.argv[1])))
    print(verdict.phrase if verdict is not None and verdict.finding is not None else "")
