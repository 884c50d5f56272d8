"""Rule for a rollout engine that samples from stale weights.

verl gives each sampled token two probabilities, the rollout engine's and the trainer's, before the
update (``training/rollout_probs_diff_mean``). In a synchronous step both use the same weights and
differ only by rounding. Before the first update this is true even if no sync arrives, since both
started from one model.

Sampling with ``top_p`` gives a token of probability p the probability p/Z, with Z of at least
top_p. That is at most 1 - top_p more, which is added to the limits.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.doctor.metrics.logged_run import LoggedRun, Series, figure
from engine.doctor.metrics.series_stats import tail_start
from engine.run.finding import Finding
from engine.run.finding_kind import Rule
from engine.run.finding_kind_file import FindingKinds

DIFFERENCE = "training/rollout_probs_diff_mean"

_ROLLOUT = "actor_rollout_ref.rollout"
_EXACT_GROWTH, _EXACT_FLOOR, _EXACT_START = 20.0, 1e-5, 1e-3
_GROWTH, _FLOOR, _STEPS = 4.0, 0.02, 3
_USUAL_TOP_P = 0.95

KINDS = FindingKinds(__file__)


def check(run: LoggedRun) -> Iterator[Finding]:
    difference = run.series(DIFFERENCE)
    if not len(difference) or not _compares_like_with_like(run):
        return
    is_float32 = run.context.get(f"{_ROLLOUT}.dtype") == "float32"
    onset = _find_onset(difference, _top_p_margin(run), is_float32=is_float32)
    if onset is None:
        return
    first, now = float(difference.values[0]), float(difference.values[-1])
    yield KINDS["training_setup_error.weights_not_synced"].finding(
        run.case(onset),
        run.evidence("mean difference of the probabilities", onset, first=first, now=now),
        first=figure(first),
        step=difference.step(0),
        now=figure(now),
    )


def _compares_like_with_like(run: LoggedRun) -> bool:
    mode = run.context.get("trainer.v1.trainer_mode")
    bypass = run.context.get("algorithm.rollout_correction.bypass_mode")
    top_k = run.context.get(f"{_ROLLOUT}.top_k")
    return mode in (None, "sync") and not bypass and top_k in (None, -1, 0)


def _top_p_margin(run: LoggedRun) -> float:
    """Return the most that top_p can add to a probability; assumes a usual top_p if unknown."""
    top_p = run.context.get(f"{_ROLLOUT}.top_p", _USUAL_TOP_P)
    return 1.0 - float(top_p) if isinstance(top_p, int | float) else 0.0


def _find_onset(difference: Series, margin: float, *, is_float32: bool) -> int | None:
    """Return the step since which rounding does not explain the difference; None if it does."""
    values, first = difference.values, difference.values[0]
    if is_float32 and first > _EXACT_START:
        return None if margin else difference.step(0)
    if is_float32:
        limit, steps = max(_EXACT_GROWTH * first, _EXACT_FLOOR), 1
    else:
        limit, steps = max(_GROWTH * first, _FLOOR), _STEPS
    index = tail_start(values > limit + margin, steps)
    return None if index is None else difference.step(index)


RULE = Rule(check)
