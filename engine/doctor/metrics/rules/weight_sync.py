"""The policy that samples is not the policy that was trained: weights did not reach the engine.

verl gives each sampled token two probabilities, the rollout engine's and the trainer's, before it
updates (``training/rollout_probs_diff_mean``). In a synchronous step both come from the same
weights, and differ by arithmetic alone; before the first update they do so even where no sync
arrives, as both began from one model.

Shape: from the second step on the mean difference is many times that of the first step and above
what the engine's type explains: 20 times and 1e-5 in float32, for one step; 4 times and 0.02
otherwise, for three. An engine that cuts to ``top_p`` gives a token of probability p the
probability p/Z with Z of at least top_p, which is at most 1 - top_p more: that is added to the
limits. In float32 without a cut also a first step above 1e-3: the engine began from other weights
than the trainer, as after a resume.
Ruled out: asynchronous modes (stale by design), a difference as large from the start (quantized
engines), one that falls again, old probabilities that are not computed (``bypass_mode``), engines
that cut to ``top_k``, which has no such bound.
Source: verl's ``calculate_debug_metrics``; adapters that never reached vLLM (verl#7495); the limits
of rounded arithmetic: docs/measurements.md, "Is the engine in sync?".
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine.doctor.metrics.run import Run, Series, figure
from engine.doctor.metrics.series_stats import Mask
from engine.findings.finding import Finding, Remedy, Severity

DIFFERENCE = "training/rollout_probs_diff_mean"

_ROLLOUT = "actor_rollout_ref.rollout"
_EXACT_GROWTH, _EXACT_FLOOR, _EXACT_START = 20.0, 1e-5, 1e-3
_GROWTH, _FLOOR, _STEPS = 4.0, 0.02, 3
_USUAL_TOP_P = 0.95


def check(run: Run) -> Iterator[Finding]:
    difference = run.series(DIFFERENCE)
    if not len(difference) or not _compares_like_with_like(run):
        return
    exact = run.context.get(f"{_ROLLOUT}.dtype") == "float32"
    cut = _explained_by_cut(run)
    onset = _exact(difference, cut) if exact else _rounded(difference, cut)
    if onset is not None:
        yield _unsynced(run, difference, onset)


def _compares_like_with_like(run: Run) -> bool:
    mode = run.context.get("trainer.v1.trainer_mode")
    bypass = run.context.get("algorithm.rollout_correction.bypass_mode")
    top_k = run.context.get(f"{_ROLLOUT}.top_k")
    return mode in (None, "sync") and not bypass and top_k in (None, -1, 0)


def _explained_by_cut(run: Run) -> float:
    """The most that top_p adds to the probability of a sampled token; the usual one if unknown."""
    top_p = run.context.get(f"{_ROLLOUT}.top_p", _USUAL_TOP_P)
    return 1.0 - float(top_p) if isinstance(top_p, int | float) else 0.0


def _exact(difference: Series, cut: float) -> int | None:
    """The first step since which it lasts, where both sides compute in float32."""
    values = difference.values
    if values[0] > _EXACT_START:
        return None if cut else difference.step(0)
    return _since(difference, values > max(_EXACT_GROWTH * values[0], _EXACT_FLOOR) + cut, 1)


def _rounded(difference: Series, cut: float) -> int | None:
    values = difference.values
    return _since(difference, values > max(_GROWTH * values[0], _FLOOR) + cut, _STEPS)


def _since(difference: Series, sick: Mask, steps: int) -> int | None:
    well = np.flatnonzero(~sick)
    place = int(well[-1]) + 1 if well.size else 0
    return difference.step(place) if sick.size - place >= steps else None


def _unsynced(run: Run, difference: Series, onset: int) -> Finding:
    first, now = float(difference.values[0]), float(difference.values[-1])
    return Finding(
        "training_setup_error.weights_not_synced",
        Severity.CRITICAL,
        "The rollout engine does not sample from the trained weights",
        f"Engine and trainer gave a sampled token probabilities that differ by {figure(first)} in "
        f"step {difference.step(0)} and by {figure(now)} now (means): rounding does not grow so. "
        "The engine answers with older weights, and the reward curve is not of the trained policy.",
        (run.seen("mean difference of the probabilities", onset, first=first, now=now),),
        (
            Remedy("Stop: what is sampled teaches the policy nothing about itself"),
            Remedy("Check that vLLM fits verl: grubrics-tui check, line environment"),
            Remedy("With LoRA, actor_rollout_ref.model.lora.merge=true sends merged weights"),
        ),
        onset,
        source="weight-sync canary",
    )
