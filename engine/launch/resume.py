"""Going on with a run that ended early, as a new attempt with the same history."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from engine import jsonl
from engine.errors import UsageError
from engine.launch.launcher import start_supervisor
from engine.records.checkpoints import complete_steps
from engine.runs import requests
from engine.runs.events import log_event
from engine.runs.processes import members
from engine.runs.rundir import RunDir
from engine.runs.state import RunState, describe, observed_state, write_state
from engine.watch.train_log import read_steps


def resume(run: RunDir, from_step: int | None = None) -> int:
    """Start a new attempt from the last complete checkpoint, or that of ``from_step``.

    Returns the step it goes on from. The manifest gains an attempt and loses nothing. UsageError
    while the run goes on or has processes left, and when there is no such checkpoint.
    """
    manifest = run.read_manifest()
    _require_ended(run)
    steps = _checkpoints(manifest)
    step = _last_logged(run, steps) if from_step is None else from_step
    checkpoint = _checkpoint_of(step, steps, manifest)
    attempt = _next_attempt(manifest, step, checkpoint)
    folder = run.attempt(attempt["number"]).path
    try:
        folder.mkdir(exist_ok=True)
        jsonl.write_json(run.manifest, {**manifest, "attempts": [*manifest["attempts"], attempt]})
        requests.clear(run)
        log_event(run, "resume", attempt=attempt["number"], from_step=step)
        write_state(
            run,
            RunState(
                "starting",
                attempt=attempt["number"],
                step=step,
                heartbeat=time.time(),
                total_steps=manifest.get("total_steps"),
            ),
        )
    except OSError as error:
        raise UsageError(f"{run.path}: {error.strerror}; nothing was resumed") from error
    start_supervisor(run)
    return step


def _require_ended(run: RunDir) -> None:
    state = observed_state(run)
    if not state.has_ended:
        raise UsageError(f"run '{run.id}' goes on ({describe(state)}); stop it before resuming")
    left = [process.pid for process in members(run)]
    if left:
        raise UsageError(f"run '{run.id}' has processes left ({left}): grubrics-tui reap --yes")


def _checkpoints(manifest: dict[str, Any]) -> dict[int, Path]:
    if manifest.get("kind") != "grpo":
        raise UsageError(f"run '{manifest.get('id')}': only GRPO runs can be resumed")
    folder = Path(manifest["cwd"], manifest["checkpoint_dir"])
    steps = complete_steps(folder, since=float(manifest["created"]))
    if not steps:
        raise UsageError(f"{folder}: holds no complete checkpoint of run '{manifest['id']}'")
    return steps


def _last_logged(run: RunDir, steps: dict[int, Path]) -> int:
    """The newest checkpoint whose step is in the history.

    verl saves a step before it logs it: going on from a step that was saved but not logged would
    leave a gap, which is only taken when there is no earlier checkpoint.
    """
    last = max((step.step for step in read_steps(run.train_log)), default=0)
    return max((step for step in steps if step <= last), default=min(steps))


def _checkpoint_of(step: int, steps: dict[int, Path], manifest: dict[str, Any]) -> Path:
    if step not in steps:
        known = ", ".join(str(number) for number in sorted(steps))
        folder = Path(manifest["cwd"], manifest["checkpoint_dir"])
        raise UsageError(f"{folder}: no complete checkpoint of step {step}; there are {known}")
    return steps[step]


def _next_attempt(manifest: dict[str, Any], step: int, checkpoint: Path) -> dict[str, Any]:
    overrides = [
        "trainer.resume_mode=resume_path",
        f"trainer.resume_from_path={checkpoint}",
        # The step before was validated by the attempt that saved it.
        "trainer.val_before_train=false",
    ]
    return {
        "number": manifest["attempts"][-1]["number"] + 1,
        "started": time.time(),
        "argv": [*manifest["argv"], *overrides],
        "from_step": step,
        "from": str(checkpoint),
    }
