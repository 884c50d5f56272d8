"""The run's own course: it cannot reach its last step, or it went on where nobody asked it to.

Shape: fewer steps can be reached than were asked for; the first attempt begins after a checkpoint
although nobody asked to go on from one.
Ruled out: a run that asked for no number of steps; resumes that a person or the recipe asked for.
Source: grubrics history (30 epochs of 3 steps end a run of 2000 at 90; auto-resume with a target
below the leftover checkpoint's step ends at once).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from engine.doctor.metrics.run import Run
from engine.findings import remedy_builders as cures
from engine.findings.finding import Finding, Remedy, Severity


def check(run: Run) -> Iterator[Finding]:
    yield from _capped_by_epochs(run)
    yield from _unasked_resume(run)


def _capped_by_epochs(run: Run) -> Iterator[Finding]:
    asked, reachable = run.context.asked_steps, run.context.total_steps
    if asked is None or reachable is None or reachable >= asked:
        return
    if run.context.get("trainer.val_only"):
        return  # It trains nothing, on purpose.
    epochs = run.context.get("trainer.total_epochs")
    known = isinstance(epochs, int) and epochs > 0 and reachable > 0
    needed = math.ceil(asked / (reachable / epochs)) if known else None
    size = f" ({epochs} epochs of {reachable / epochs:g} steps)" if known else ""
    remedy = Remedy("Raise trainer.total_epochs")
    if needed is not None:
        remedy = cures.setting(
            run.context,
            "trainer.total_epochs",
            needed,
            f"{needed} epochs",
            f"all {asked} steps can be reached",
        )
    yield Finding(
        "config_error.epochs_cap",
        Severity.WARNING,
        f"The run ends at step {reachable} of {asked}",
        f"{asked} steps were asked for, and the data gives {reachable}{size}: verl ends with the "
        "epochs, whatever the number of steps, and then writes no last checkpoint.",
        (run.seen("steps", None, asked=asked, reachable=reachable),),
        (remedy,),
        source="verl: total_epochs caps total_training_steps",
    )


def _unasked_resume(run: Run) -> Iterator[Finding]:
    for start in run.context.starts:
        if not start.resumed_from or start.asked is not False:
            continue
        yield Finding(
            "checkpoint_corrupt_or_mismatch.resume_unasked",
            Severity.WARNING,
            f"The run went on from a checkpoint of step {start.resumed_from}",
            f"Attempt {start.attempt} began at step {start.first_step} with the weights of a "
            f"checkpoint of step {start.resumed_from} that lay in its folder; nobody asked to go "
            "on from one. Its curves are not those of a run from the beginning.",
            (run.seen("first step", start.first_step, checkpoint=start.resumed_from),),
            (
                cures.setting(
                    run.context,
                    "trainer.resume_mode",
                    "disable",
                    "Start from the beginning",
                    "leftover checkpoints are not loaded",
                ),
                Remedy("Give the run a checkpoint folder of its own instead"),
            ),
            start.first_step,
            source="grubrics history: auto-resume of a leftover checkpoint",
        )
