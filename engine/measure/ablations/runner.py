"""Run an ablation to its end: ``python -m engine.measure.ablations.runner FOLDER RUNS``.

One detached process per ablation launches the planned runs one after the other. It keeps no state:
a run that has finished is never repeated, one that was killed is resumed from its last checkpoint
or started again, and an arm whose first two seeds fail with one cause is given up.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from engine.base import files, jsonl, locks
from engine.base.errors import UsageError, guarded
from engine.base.follow import last_lines
from engine.checks.preflight import require_launchable
from engine.config.load import Config
from engine.doctor.diagnose import diagnose_run
from engine.launch.launcher import launch, plan
from engine.launch.resume import resume
from engine.measure.ablations.measure import find_measure
from engine.measure.ablations.plan import (
    BASE,
    MOST_TRIES,
    AblationPlan,
    Job,
    current_run,
    read_plan,
    run_names,
)
from engine.measure.ablations.table import KnownRuns, find_worse, read_runs
from engine.run.host.programs import detach, own_module
from engine.run.host.surroundings import edited_files
from engine.run.processes import end_members
from engine.run.run import Run
from engine.run.state import RunState, observed_state
from engine.supervise.finalize import finalize

SAME_FAULT = 2
"""As many seeds of an arm that fail with one cause end the arm."""
REFUSALS = "refusals.jsonl"
SETTINGS = "settings.json"
LOCK = "lock"
_INSTANT_S = 1.0
_PATIENCE_S = 5.0
_POLL_S = 1.0


@dataclass(frozen=True)
class Outcome:
    """How a run of the plan ended. ``cause``: the finding that explains a failure."""

    job: Job
    finished: bool
    cause: str | None = None


def find_cause(run: Run, state: RunState) -> str:
    """The finding that explains a failure, else the reason that the run recorded."""
    findings = diagnose_run(run)
    return findings[0].title if findings else (state.reason or "unknown")


FindCause = Callable[[Run, RunState], str]


def outcome_of(job: Job, root: Path, find: FindCause = find_cause) -> Outcome | None:
    """How the job ended, once it has; None while it can still be run. ``find`` names the cause of a
    failure."""
    run = current_run(job, root)
    if run is None:
        return None
    state = observed_state(run)
    if not state.has_ended or was_interrupted(state):
        return None
    if state.went_well:
        return Outcome(job, finished=True)
    return Outcome(job, finished=False, cause=find(run, state))


def given_up(
    plan_: AblationPlan,
    root: Path,
    *,
    stop: bool = True,
    known: KnownRuns | None = None,
    find: FindCause = find_cause,
) -> dict[str, str]:
    """The arms that are not started again, with the reason.

    ``stop`` False starts them although their first seeds failed. Arms that are worse are given up
    only where the plan says so, because that is part of its statistics. ``known`` and ``find`` save
    a caller that asks often from reading everything again.
    """
    reasons = _failed(plan_, root, find) if stop else {}
    if plan_.stop_worse:
        measure = find_measure(plan_)
        runs = read_runs(plan_, root, measure, known)
        reasons |= find_worse(plan_, runs, lower_is_better=measure.lower_is_better)
    return reasons


def _failed(plan_: AblationPlan, root: Path, find: FindCause) -> dict[str, str]:
    """The arms whose first seeds ended with one and the same fault."""
    outcomes = [outcome for job in plan_.jobs() if (outcome := outcome_of(job, root, find))]
    reasons = {}
    for arm in plan_.arms:
        ended = [outcome for outcome in outcomes if outcome.job.arm == arm.name]
        causes = [outcome.cause for outcome in ended[:SAME_FAULT] if not outcome.finished]
        if len(causes) == SAME_FAULT and len(set(causes)) == 1:
            reasons[arm.name] = f"the first {SAME_FAULT} seeds failed: {causes[0]}"
    return reasons


def run_plan(
    plan_: AblationPlan,
    root: Path,
    *,
    stop: bool = True,
    sleep: Callable[[float], None] = time.sleep,
    report: Callable[[str], None] = print,
) -> None:
    """Launch what is missing, in order, until every job has ended or its arm is given up.

    A run that cannot be launched is reported and left out; the next one may be launchable. When a
    user stops a run, the ablation pauses: nothing is launched until it is started again.
    """
    for job in plan_.jobs():
        resumed: list[str] = []
        try:
            while job.arm not in given_up(plan_, root, stop=stop) and not outcome_of(job, root):
                run = current_run(job, root)
                if run is None or observed_state(run).has_ended:
                    _require_progress(run, resumed)
                    resumed.append(_start(job, plan_, run, root))
                    report(resumed[-1])
                _wait(job, root, sleep)
                if (run := current_run(job, root)) and _stopped_by_user(observed_state(run)):
                    report(f"{run.id}: stopped by a user; the ablation is paused")
                    return
        except UsageError as error:
            report(f"{job.run}: {error}")
            jsonl.append(
                plan_.folder / REFUSALS, {"arm": job.arm, "run": job.run, "why": str(error)}
            )


def read_refusals(plan_: AblationPlan) -> dict[str, str]:
    """Why a run could not be launched, by arm, since the runner was started."""
    return {str(line["arm"]): str(line["why"]) for line in jsonl.read(plan_.folder / REFUSALS)}


def stops_failing(plan_: AblationPlan) -> bool:
    """Whether an arm is given up when its first seeds fail with one cause, as last started."""
    return (jsonl.read_json(plan_.folder / SETTINGS) or {}).get("stop") is not False


def write_plan(plan_: AblationPlan, base: Config, root: Path) -> None:
    """Write a new plan. UsageError, and nothing is written, if one of its arms cannot be launched.

    A plan that is written already stays as it is.
    """
    if (plan_.folder / "plan.json").is_file():
        return
    plan_.write(base)
    written = plan_.config()
    for job in islice(plan_.jobs(), len(plan_.arms)):
        try:
            require_launchable(written.with_overrides(job.overrides), root)
        except UsageError as error:
            shutil.rmtree(plan_.folder)
            raise UsageError(f"arm '{job.arm}': {error}") from error


def start_runner(folder: Path, root: Path, *, stop: bool = True) -> bool:
    """Start the detached process; False if one works on the ablation already. ``stop`` gives up
    arms that fail. UsageError if it ends before it could work."""
    if is_running(folder):
        return False
    (folder / REFUSALS).unlink(missing_ok=True)
    jsonl.write_json(folder / SETTINGS, {"stop": stop})
    log = folder / "runner.log"
    with os.fdopen(files.open_to_append(log), "ab") as output:
        command = own_module(
            "engine.measure.ablations.runner", str(folder.resolve()), str(root.resolve())
        )
        started = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False
        )
    if started.returncode != 0 and not is_running(folder):
        last = last_lines(log, 1)
        reason = last[-1].decode(errors="replace").strip() if last else "no output"
        raise UsageError(f"the runs were not started: {reason} (see {log})")
    return True


def is_running(folder: Path) -> bool:
    """Whether a process works on the ablation."""
    return locks.is_held(folder / LOCK)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the ablation. UsageError if another process does."""
    descriptor = files.open_lock(folder / LOCK)
    try:
        try:
            # ``is_running`` of another process holds it for an instant.
            locks.take(descriptor, folder / LOCK, _INSTANT_S)
        except BlockingIOError as error:
            raise UsageError(f"{folder}: another process runs this ablation") from error
        yield
    finally:
        os.close(descriptor)


def _start(job: Job, plan_: AblationPlan, run: Run | None, root: Path) -> str:
    """Resume a run that was interrupted, or launch a new one. Returns a line about it.

    A trainer that outlives its supervisor is ended first, because the next attempt writes to
    the same checkpoint folder.
    """
    reason = "it was interrupted"
    _require_same_files(job, plan_, root)
    if run is not None and run.path.parent != root:
        raise UsageError(
            f"run '{run.id}' is archived and has not finished. Restore it: "
            f"grubrics-tui archive --undo {run.id}"
        )
    if run is not None:
        end_members(run, _PATIENCE_S)
        try:
            resumed = resume(run)
            return f"{run.id}: resumed from step {resumed.step}"
        except UsageError as error:
            reason = str(error)
            finalize(run, noticed_by="ablate")
    names = [name for name in run_names(job) if not (root / name).exists()]
    if not names:
        raise UsageError(f"{job.run}: was started {MOST_TRIES} times and did not end: {reason}")
    config = plan_.config().with_overrides(job.overrides)
    require_launchable(config, root)
    launched = launch(replace(plan(config, names[0], root), group=plan_.id))
    return f"{launched.id}: launched" + (f", because {reason}" if run is not None else "")


def _require_progress(run: Run | None, starts: Sequence[str]) -> None:
    """UsageError if the last starts of a run all resumed it from one step: what interrupts it, such
    as the host's memory, will do so again."""
    last = starts[-MOST_TRIES:]
    if run is not None and len(last) == MOST_TRIES and len(set(last)) == 1:
        reason = observed_state(run).reason or "unknown"
        raise UsageError(f"{run.id}: was interrupted {MOST_TRIES} times without progress: {reason}")


def _require_same_files(job: Job, plan_: AblationPlan, root: Path) -> None:
    """UsageError if data, reward code or the initial model have changed since the first run of the
    base or of this arm: the seeds would not be comparable."""
    for name in dict.fromkeys((BASE, job.arm)):
        runs = (current_run(each, root) for each in plan_.jobs() if each.arm == name)
        first = next((run for run in runs if run is not None), None)
        if first is not None and (paths := edited_files(first.read_manifest())):
            raise UsageError(
                f"{paths[0]} has changed since run '{first.id}', so the runs would not be "
                "comparable. Restore it, or start a new ablation"
            )


def _wait(job: Job, root: Path, sleep: Callable[[float], None]) -> None:
    while (run := current_run(job, root)) is not None and not observed_state(run).has_ended:
        sleep(_POLL_S)


def was_interrupted(state: RunState) -> bool:
    """Whether the run ended early by no fault of its own: a kill, a reboot, a user."""
    reason = state.reason or ""
    is_shutdown = reason.startswith("stopped by SIGTERM")
    return state.state == "lost" or bool(state.signal) or is_shutdown or _stopped_by_user(state)


def _stopped_by_user(state: RunState) -> bool:
    return (state.reason or "").startswith("stopped by user")


def _main() -> int:
    folder, root = Path(sys.argv[1]), Path(sys.argv[2])
    plan_ = read_plan(folder)
    with locked(folder):
        detach()
        run_plan(plan_, root, stop=stops_failing(plan_))
    return 0


if __name__ == "__main__":
    sys.exit(guarded(_main))
