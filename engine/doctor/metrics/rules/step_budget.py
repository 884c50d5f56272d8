"""Rules for the steps of a run: too few epochs for them, or an unintended resume."""

from __future__ import annotations

import math
from collections.abc import Iterator

from engine.doctor.metrics.logged_run import LoggedRun
from engine.run import fixes
from engine.run.finding import Finding
from engine.run.finding_kind import Rule
from engine.run.finding_kind_file import FindingKinds

KINDS = FindingKinds(__file__)


def check(run: LoggedRun) -> Iterator[Finding]:
    yield from _capped_by_epochs(run)
    yield from _unasked_resume(run)


def _capped_by_epochs(run: LoggedRun) -> Iterator[Finding]:
    requested, reachable = run.context.asked_steps, run.context.total_steps
    if requested is None or reachable is None or reachable >= requested:
        return
    if run.context.get("trainer.val_only"):
        return  # Such a run only validates.
    epochs, size, raised = run.context.get("trainer.total_epochs"), "", None
    if isinstance(epochs, int) and epochs > 0 and reachable > 0:
        size = f" ({epochs} epochs of {reachable / epochs:g} steps)"
        needed = math.ceil(requested / (reachable / epochs))
        key, effect = "trainer.total_epochs", f"all {requested} steps can be reached"
        raised = [fixes.setting(run.context, key, needed, f"Train {needed} epochs", effect)]
    yield KINDS["config_error.epochs_cap"].finding(
        run.case(),
        run.evidence("steps", None, asked=requested, reachable=reachable),
        fixes=raised,
        asked=requested,
        reachable=reachable,
        size=size,
    )


def _unasked_resume(run: LoggedRun) -> Iterator[Finding]:
    for start in run.context.starts:
        if not start.resumed_from or start.asked is not False:
            continue
        onset, checkpoint = start.first_step, start.resumed_from
        yield KINDS["checkpoint_corrupt_or_mismatch.resume_unasked"].finding(
            run.case(onset),
            run.evidence("first step", onset, checkpoint=checkpoint),
            checkpoint=checkpoint,
            attempt=start.attempt,
        )


RULE = Rule(check)
