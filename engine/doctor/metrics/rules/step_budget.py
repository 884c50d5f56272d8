"""Rules for the steps of a run: too few epochs for them, or an unintended resume."""

from __future__ import annotations

import math
from collections.abc import Iterator

from engine.doctor.metrics.run import Run
from engine.findings import remedy_builders as fixes
from engine.findings.finding import Finding, Remedy, Severity
from engine.findings.symptom import Case, Rule, Symptom

EPOCHS_CAP = Symptom(
    id="config_error.epochs_cap",
    severity=Severity.WARNING,
    title="The run will end at step {reachable} of {asked}: too few epochs",
    cause="The config asks for {asked} steps, but the data gives only {reachable}{size}. verl "
    "stops after the last epoch, regardless of the number of steps, and then writes no last "
    "checkpoint.",
    shape="fewer steps can be reached than the config asks for",
    ruled_out="configs that set no number of steps; `trainer.val_only`",
    remedies=lambda _: (Remedy("Raise trainer.total_epochs"),),
    source="verl: total_epochs caps total_training_steps (grubrics history: 30 epochs of 3 steps "
    "end a run of 2000 at 90)",
)


def _start_over(case: Case) -> tuple[Remedy, ...]:
    return (
        fixes.setting(
            case.context,
            "trainer.resume_mode",
            "disable",
            "Start from the beginning",
            "existing checkpoints are not loaded",
        ),
        Remedy("Use a separate checkpoint folder for the run instead"),
    )


RESUME_UNASKED = Symptom(
    id="checkpoint_corrupt_or_mismatch.resume_unasked",
    severity=Severity.WARNING,
    title="Unintended resume from an existing checkpoint (step {checkpoint})",
    cause="Attempt {attempt} began at step {onset}: it loaded the step-{checkpoint} checkpoint "
    "found in its folder, although no resume was requested. Its curves do not show a fresh run.",
    shape="the first attempt begins after a checkpoint although no resume was requested",
    ruled_out="resumes that a user or the config requested",
    remedies=_start_over,
    source="grubrics history: auto-resume of an existing checkpoint",
)


def check(run: Run) -> Iterator[Finding]:
    yield from _capped_by_epochs(run)
    yield from _unasked_resume(run)


def _capped_by_epochs(run: Run) -> Iterator[Finding]:
    requested, reachable = run.context.asked_steps, run.context.total_steps
    if requested is None or reachable is None or reachable >= requested:
        return
    if run.context.get("trainer.val_only"):
        return  # Such a run only validates.
    epochs, size, remedies = run.context.get("trainer.total_epochs"), "", None
    if isinstance(epochs, int) and epochs > 0 and reachable > 0:
        size = f" ({epochs} epochs of {reachable / epochs:g} steps)"
        needed = math.ceil(requested / (reachable / epochs))
        key, effect = "trainer.total_epochs", f"all {requested} steps can be reached"
        remedies = [fixes.setting(run.context, key, needed, f"Train {needed} epochs", effect)]
    yield EPOCHS_CAP.finding(
        run.case(),
        run.evidence("steps", None, asked=requested, reachable=reachable),
        remedies=remedies,
        asked=requested,
        reachable=reachable,
        size=size,
    )


def _unasked_resume(run: Run) -> Iterator[Finding]:
    for start in run.context.starts:
        if not start.resumed_from or start.asked is not False:
            continue
        onset, checkpoint = start.first_step, start.resumed_from
        yield RESUME_UNASKED.finding(
            run.case(onset),
            run.evidence("first step", onset, checkpoint=checkpoint),
            checkpoint=checkpoint,
            attempt=start.attempt,
            onset=onset,
        )


RULE = Rule(check)
