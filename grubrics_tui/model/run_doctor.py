"""Diagnose the run on the screen, for threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.errors import UsageError
from engine.run.finding import Finding
from engine.run.run import Run
from engine.run.state import RunState
from grubrics_tui.model.poller import Pace, Poller
from grubrics_tui.model.run_source import Watched

if TYPE_CHECKING:
    from engine.run.history.columns import Columns

_FIRST_S, _POLL_S, _LIVE_SHARE, _FINDINGS_SHARE = 1.0, 5.0, 0.003, 0.02
"""Delay of the first diagnosis, shortest pause, and the share of a core that later ones may use:
less on the live view, more on the findings screen."""

IsStopped = Callable[[], bool]


@dataclass(frozen=True)
class Diagnosis:
    """Findings, root causes first. ``lineage`` compares a derived run with its original;
    ``trouble`` says why the diagnosis failed."""

    findings: Sequence[Finding] = ()
    lineage: str = ""
    trouble: str = ""


class RunDoctor:
    """The live view passes on what it has read; a thread diagnoses it.

    An external log is read again for the diagnosis, after the live view has read its history, so
    that the two do not compete.
    """

    def __init__(self, run: Watched) -> None:
        self._run = run
        self._poller: Poller[tuple[RunState, Columns]] = Poller(time.thread_time)
        self._has_ended = False
        self._due = 0.0

    def update(self, state: RunState, columns: Columns) -> None:
        """Pass on an update; ``columns`` belong to the screen and keep growing."""
        now = time.monotonic()
        if now >= self._due or state.has_ended:
            self._due = now + _POLL_S / 2
            has_just_ended = state.has_ended and not self._has_ended
            self._poller.ask((state, columns.frozen()), now=has_just_ended)
        self._has_ended = state.has_ended

    def close(self) -> None:
        self._poller.close()

    def findings(self) -> Iterator[Sequence[Finding]]:
        """Yield the findings whenever they change, until ``close``. Blocks: for a thread."""
        self._poller.rest(_FIRST_S)
        diagnose, latest = _live_diagnosis(self._run), None
        for state, columns in self._poller.rounds(Pace(_POLL_S, _LIVE_SHARE, free=1)):
            with suppress(Exception):  # The folder is being deleted, or a rule fails.
                findings = diagnose(state, columns, self._poller.is_closed)
                if findings != latest and not self._poller.is_closed():
                    latest = findings
                    yield findings


def _live_diagnosis(run: Watched) -> Callable[[RunState, Columns, IsStopped], Sequence[Finding]]:
    # The rules are imported after the first screen is drawn.
    if isinstance(run, Run):
        from engine.doctor.live import LiveDoctor

        return LiveDoctor(run).diagnose
    from engine.doctor.log_doctor import LogDoctor, source_of_external

    log = LogDoctor(source_of_external(run))
    return lambda state, columns, is_stopped: log.diagnose(is_stopped)


def diagnoses(run: Watched, poller: Poller[None]) -> Iterator[Diagnosis]:
    """Yield the diagnosis of a run or an external log whenever it changes, until ``poller`` closes.

    Blocks: for a thread.
    """
    diagnose, latest = _full_diagnosis(run, poller.is_closed), None
    poller.wake()
    for _ in poller.rounds(Pace(_POLL_S, _FINDINGS_SHARE, free=1)):
        try:
            diagnosis = diagnose()
        except (OSError, UsageError) as error:
            diagnosis = Diagnosis(trouble=str(error))
        except Exception as error:  # A failing rule must not leave the screen waiting.
            diagnosis = Diagnosis(trouble=f"{type(error).__name__}: {error}")
        if diagnosis != latest and not poller.is_closed():
            latest = diagnosis
            yield diagnosis


def _full_diagnosis(run: Watched, is_stopped: IsStopped) -> Callable[[], Diagnosis]:
    if isinstance(run, Run):
        from engine.doctor.live import RunFollower
        from engine.launch.lineage import Lineage

        doctor, lineage = RunFollower(run), Lineage(run)

        def diagnose() -> Diagnosis:
            state, findings = doctor.diagnose(is_stopped)
            return Diagnosis(findings, lineage.describe(state, findings, is_stopped))

        return diagnose
    from engine.doctor.log_doctor import LogDoctor, source_of_external

    log = LogDoctor(source_of_external(run))
    return lambda: Diagnosis(log.diagnose(is_stopped))


def find_evidence_line(findings: Iterable[Finding]) -> tuple[Path, int] | None:
    """The log and the byte at which the line begins that proves the first of the findings that has
    such a line; numeric evidence has none."""
    for evidence in (evidence for finding in findings for evidence in finding.evidence):
        if evidence.path is not None and evidence.offset is not None:
            path = Path(evidence.path)
            if path.is_file():
                return path, evidence.offset
    return None
