"""The metrics of an answer: what each is, and which direction is better."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from engine.measure.folder import LOSS, ScoreRow
from engine.reward.formula import RewardParts, RewardSettings, total_reward
from engine.reward.own.function import TASK_LABEL
from engine.reward.scorer import ScoredRollout
from engine.tasks.registry import tasks
from engine.tasks.rubrics import parse_rubric

Scale = Literal["rate", "undeclared", "graded"]
"""What the scores of a metric can be: ``rate`` is 0 (wrong) or 1 (right). ``undeclared`` are those
of a function that may be a rate: the scores of all targets together decide."""


@dataclass(frozen=True)
class Metric:
    """``worst``: the value of a completely wrong answer; None if there is none.

    ``bounds``: the smallest and largest possible value, where they are known.
    """

    name: str
    worst: float | None
    scale: Scale = "graded"
    bounds: tuple[float, float] | None = None
    lower_is_better: bool = False

    def value(self, row: ScoreRow) -> float | None:
        """The metric of a scored answer; None where it was not scored."""
        if not row.is_scored:
            return None
        return row.reward if self.name == "reward" else row.parts.get(self.name)


def metrics_of(scoring: Mapping[str, Any]) -> tuple[Metric, ...]:
    """The metrics of a setup's scoring: those of a rubric, the score of a function, or a loss."""
    if LOSS in scoring:
        return (Metric(LOSS, None, lower_is_better=True),)
    if "function" in scoring:
        return _metrics_of_function(scoring)
    settings = RewardSettings(**scoring["reward"])
    worst = total_reward(RewardParts(-1.0, 0.0, 0.0, 1.0), settings)
    return (
        Metric("reward", worst),
        Metric("alignment", -1.0, bounds=(-1.0, 1.0)),
        Metric("discrimination", 0.0, bounds=(0.0, 0.5)),
        Metric("format_validity", 0.0, bounds=(0.0, 1.0)),
        Metric("info_value", 0.0, bounds=(0.0, 1.0)),
    )


def _metrics_of_function(scoring: Mapping[str, Any]) -> tuple[Metric, ...]:
    """The score, and what a task declares of it; another function declares nothing."""
    label = str(scoring["function"])
    task = tasks().get(label.removeprefix(TASK_LABEL)) if label.startswith(TASK_LABEL) else None
    if task is None:
        return (Metric("reward", 0.0, "undeclared"),)
    scale: Scale = "rate" if task.is_rate(scoring["kwargs"]) else "graded"
    others = (Metric(name, 0.0, bounds=(0.0, 1.0)) for name in task.metrics)
    return (Metric("reward", 0.0, scale), *others)


def measure(scored: ScoredRollout, text: str) -> dict[str, float]:
    """The numbers to keep with a score: those of the scorer, and for a rubric also

    ``discrimination``, the population standard deviation of the judge's scores, and
    ``format_validity``, the share of its lines that are an item with points.
    """
    numbers = dict(scored.numbers)
    if judge := scored.record.judge:
        numbers["discrimination"] = statistics.pstdev(judge)
        numbers["format_validity"] = format_validity(text)
    return numbers


def format_validity(rubric: str) -> float:
    """Share of the non-empty lines that are an item; 0 for an empty text."""
    lines = [line for line in rubric.splitlines() if line.strip()]
    return sum(bool(parse_rubric(line)) for line in lines) / len(lines) if lines else 0.0
