"""Unhealthy runs of a project of their own: launched, watched live, fixed as a finding says."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.config.load import load_config
from engine.doctor.diagnose import diagnose_run
from engine.doctor.live import RunFollower
from engine.launch.launcher import launch, plan
from engine.launch.rerun import check_rerun, launch_rerun
from engine.run.finding import Finding, Fix
from engine.run.history.train_log import read_steps
from engine.run.run import Run
from engine.run.state import RunState, observed_state
from tests.e2e.moody_judge import MoodyJudge
from tests.e2e.project import Project
from tests.waiting import ended, wait_for

_LOOK_S = 0.25
_PATIENCE_S = 240.0
_OFFERED_S = 120.0

Strike = Callable[[Run], float]
"""Harms a run that trains; returns when, in Unix seconds."""


@dataclass(frozen=True)
class Named:
    """The doctor's first alert about a run, and how long after the onset it came.

    0 seconds is also what is named before it does any harm. ``steps`` is None where no step shows
    the onset.
    """

    finding: Finding
    seconds: float
    steps: int | None
    while_it_ran: bool

    @property
    def in_time(self) -> bool:
        return self.seconds <= 30 or (self.steps is not None and self.steps <= 2)


@dataclass(frozen=True)
class Ward:
    """A project, and the judge that its runs may ask. The working directory is the project's."""

    project: Project
    judge: MoodyJudge

    def launch(self, name: str, config: str, overrides: Sequence[str]) -> Run:
        """Past the preflight checks, as a run is whose files or ports change after its checks."""
        planned = plan(load_config(config, overrides, os.environ), name, self.project.path / "runs")
        return launch(planned)

    def launch_checked(self, name: str, config: str, overrides: Sequence[str]) -> Run:
        self.project.json("launch", config, *overrides, "--name", name)
        return Run(self.project.path / "runs" / name)

    def watch(self, run: Run, strike: Strike | None = None) -> Named:
        """Follow ``run`` until something is alarming; ``strike`` harms it once it trains."""
        follower, deadline = RunFollower(run), time.monotonic() + _PATIENCE_S
        struck: float | None = None
        while time.monotonic() < deadline:
            state, findings = follower.diagnose()
            if alerts := [finding for finding in findings if finding.severity.is_alert]:
                return _named(run, state, alerts[0], struck or self.judge.ill_since)
            if strike is not None and struck is None and state.step:
                struck = strike(run)
            assert not state.has_ended, f"nothing is wrong with it: {state}"
            time.sleep(_LOOK_S)
        raise AssertionError(f"nothing was named: {observed_state(run)}")

    def offered(self, run: Run, words: str) -> Fix:
        """The fix of the run's first finding with these words in its title, once it is there:
        the first line of trouble says less than the records a moment later."""

        def fitting() -> list[Fix]:
            fixes = [fix for finding in alerts(run)[:1] for fix in finding.fixes]
            return [fix for fix in fixes if words.lower() in fix.title.lower()]

        wait_for(fitting, seconds=_OFFERED_S)
        return fitting()[0]

    def fixed(self, run: Run, fix: Fix) -> Run:
        """The run's child with the fix applied."""
        assert fix.is_launchable, fix
        return launch_rerun(check_rerun(run, fix.changes))

    def stop(self, run: Run) -> None:
        self.project.run("stop", run.id)


def _named(run: Run, state: RunState, finding: Finding, struck: float | None) -> Named:
    onset = _onset(run, finding) if struck is None else struck
    seconds = 0.0 if onset is None else max(0.0, time.time() - onset)
    begin = finding.onset_step
    steps = None if begin is None else max(0, (state.step or 0) - begin)
    return Named(finding, seconds, steps, not state.has_ended)


def _onset(run: Run, finding: Finding) -> float | None:
    """Unix seconds: the first failed rollout, the step of the onset, or the end of the run."""
    attempt = run.attempts()[-1]
    failed = [one["t"] - one["duration_s"] for one in _records(attempt.reward) if one.get("error")]
    steps = [step.time for step in read_steps(run.train_log) if step.step == finding.onset_step]
    known = [*failed[:1], *steps[:1]]
    return min(known) if known else observed_state(run).ended


def _records(path: Path) -> list[dict[str, Any]]:
    return list(jsonl.read(path)) if path.is_file() else []


def alerts(run: Run) -> list[Finding]:
    """What a finished file says: nothing of a healthy run."""
    return [finding for finding in diagnose_run(run) if finding.severity.is_alert]


def recovered(run: Run) -> None:
    """The run reaches its last step, and nothing is wrong with it."""
    state = ended(run)
    total = run.read_manifest().total_steps
    assert (state.state, state.step) == ("finished", total), state
    assert [(alert.id, alert.cause) for alert in alerts(run)] == []
