"""Lines of evaluations, for tests of what is computed from them."""

from __future__ import annotations

from collections.abc import Sequence

from engine.measure.folder import AnswerRow, ScoreRow
from engine.measure.summary import TargetRows


def make_rows(
    name: str, rewards: Sequence[Sequence[float | None]], items: Sequence[str] | None = None
) -> TargetRows:
    """The rows of a target: ``rewards`` by item and sample; None is an answer without a score."""
    uids = items or [f"item-{number}" for number in range(len(rewards))]
    answers, scores = {}, {}
    for uid, samples in zip(uids, rewards, strict=True):
        for sample, reward in enumerate(samples):
            answers[uid, sample] = AnswerRow(uid, sample, f"sha-{uid}", "", "text", 5, True)
            error = "timeout: no reply" if reward is None else None
            scores[uid, sample] = ScoreRow(uid, sample, reward, {}, error)
    return TargetRows(name, answers, scores)
