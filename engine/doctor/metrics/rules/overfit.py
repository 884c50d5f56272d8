"""Supervised training that learns its rows by heart: validation loss rises, training loss falls.

Shape: at least 5 validations; the last 3 are all above the best by 15 % and rising, while the
training loss went on falling since. Ruled out: a validation that wobbles around its best, and
both losses rising together (that is divergence).
Source: early stopping with patience 3 (Prechelt, "Early Stopping - But When?", 1998).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.doctor.metrics.run import Run, figure
from engine.findings import remedy_builders as cures
from engine.findings.finding import Finding, Remedy, Severity
from engine.history import metrics

_VALIDATIONS = 5
_PATIENCE = 3
_RISE = 1.15


def check(run: Run) -> Iterator[Finding]:
    validation, training = run.series(metrics.VALIDATION_LOSS), run.series(metrics.TRAIN_LOSS)
    if len(validation) < _VALIDATIONS or training.name != metrics.TRAIN_LOSS:
        return
    best = int(np.argmin(validation.values))
    lowest, last = float(validation.values[best]), validation.values[-_PATIENCE:]
    if len(validation) - 1 - best < _PATIENCE or lowest <= 0:
        return
    if last.min() < _RISE * lowest or last[-1] < last[0]:
        return
    onset = validation.step(best)
    before, after = training.until(onset).values[-10:], training.since(onset).values[-10:]
    if not before.size or not after.size or np.median(after) >= np.median(before):
        return
    yield Finding(
        "overfitting",
        Severity.WARNING,
        "Validation loss rises while training loss falls",
        f"Validation loss was lowest at step {onset} ({figure(lowest)}) and is "
        f"{figure(float(last[-1]))} at the end, while training loss fell from about "
        f"{figure(float(np.median(before)))} to {figure(float(np.median(after)))} (medians of up "
        "to 10 steps): since then the model learns the training rows by heart.",
        (
            run.seen(
                f"{validation.name} rose from {figure(lowest)} to {figure(float(last[-1]))}",
                onset,
                before=lowest,
                after=float(last[-1]),
            ),
        ),
        (
            Remedy(f"Use the checkpoint of step {onset}", (), "the best validation loss"),
            cures.scaled(
                run.context, "training.num_train_epochs", 0.5, "Train fewer epochs", "less by heart"
            ),
            cures.gentler(run.context, 0.5),
        ),
        onset,
        source="early stopping with patience 3",
    )
