"""What the arms of an ablation are compared by: their validation, scored alike."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from engine.base.errors import unknown_name
from engine.base.files import version_of
from engine.config.load import Config
from engine.config.scoring import asks_judge
from engine.measure.ablations.plan import AblationPlan, current_run
from engine.measure.setup import scoring_of
from engine.reward.formula import RewardParts, RewardSettings, total_reward
from engine.run.history import metrics
from engine.run.history.reward_records import RewardRecord, RewardRecords
from engine.run.history.train_log import Step, read_steps
from engine.run.run import Run

_WEIGHTS = tuple(f"reward_config.{name}" for name in RewardSettings.model_fields)


@dataclass(frozen=True)
class Measure:
    """``metric`` is its name in the training log. ``settings``: the weights of the base, where the
    arms have others; every answer is then scored again from the parts that its run recorded."""

    title: str
    metric: str
    lower_is_better: bool = False
    settings: RewardSettings | None = None

    def read(self, run: Run, steps: Sequence[Step]) -> dict[int, float]:
        """The measure after each validated step; step 0, before training, is left out."""
        if self.settings:
            # The records of a validation that is running or was killed are incomplete.
            ended = {(step.attempt, step.step) for step in steps if self.metric in step.metrics}
            return dict(_scored_again(run, self.settings, ended))
        return dict(self._logged(steps))

    def stamp(self, run: Run) -> object:
        """A value that changes with the files that ``read`` reads."""
        paths = [run.train_log]
        if self.settings is not None:
            paths += [attempt.reward for attempt in run.attempts()]
        return [(path.name, version_of(path)) for path in paths]

    def _logged(self, steps: Sequence[Step]) -> Iterator[tuple[int, float]]:
        for step in steps:
            value = step.metrics.get(self.metric)
            if value is not None and step.step > 0:
                yield step.step, value


def find_measure(plan: AblationPlan, metric: str | None = None) -> Measure:
    """The measure of a plan: validation loss, validation reward, or that with the base's weights
    where an arm changes the weights. A reward that leaves a term out is larger or smaller for that
    alone. ``metric`` is one of the training log to compare by instead."""
    base = plan.config()
    if metric is not None:
        lower = "loss" in metric.lower()
        return Measure(f"{metric} ({'lower' if lower else 'higher'} is better)", metric, lower)
    if not base.kind.has_rollouts:
        return Measure("validation loss", metrics.VALIDATION_LOSS, lower_is_better=True)
    changed = {key for arm in plan.arms for key in arm.differences} - {
        "reward_config.use_contrastive"
    }
    if asks_judge(base) and changed & set(_WEIGHTS):
        settings = RewardSettings(**base.section("reward_config"))
        return Measure(
            "validation reward with the base's weights",
            metrics.VALIDATION_REWARD,
            settings=settings,
        )
    return Measure("validation reward", metrics.VALIDATION_REWARD)


def require_logged(plan: AblationPlan, root: Path, metric: str) -> None:
    """UsageError with those of the validation if the runs have logged metrics, but not this."""
    runs = [run for job in plan.jobs() if (run := current_run(job, root)) is not None]
    logged = {name for run in runs for step in read_steps(run.train_log) for name in step.metrics}
    if logged and metric not in logged:
        first = sorted(name for name in logged if name.startswith("val"))
        raise unknown_name("metric", metric, logged, first=first)


def why_incomparable(plan: AblationPlan) -> dict[str, str]:
    """The arms whose answers are scored by something else than the base's, with the reason."""
    base = plan.config()
    if not base.kind.has_rollouts:
        return {}
    reference, reasons = _scorer_of(base), {}
    for arm in plan.arms:
        if _scorer_of(base.with_overrides(arm.overrides)) != reference:
            reasons[arm.name] = (
                "its answers are scored by something else; compare a metric that both log with "
                "--metric, or its checkpoints with grubrics-tui evaluate"
            )
    return reasons


def _scorer_of(config: Config) -> dict[str, Any]:
    """What decides a score, without the weights: they can be exchanged afterwards."""
    return {key: value for key, value in scoring_of(config).items() if key != "reward"}


def _scored_again(
    run: Run, settings: RewardSettings, ended: Container[tuple[int, int]]
) -> Iterator[tuple[int, float]]:
    """The mean reward of each validation after step 0 of ``ended``, by attempt and step. A step
    that a later attempt repeats counts once: the consumer keeps the last value."""
    for attempt in run.attempts():
        records = RewardRecords(attempt.reward)
        records.poll()
        validated = (step for step in records.steps("val") if (attempt.number, step) in ended)
        for step in sorted(step for step in validated if step > 0):
            rewards = [
                reward
                for record in records.at("val", step).values()
                if (reward := _reward(record, settings)) is not None
            ]
            if rewards:
                yield step, fmean(rewards)


def _reward(record: RewardRecord, settings: RewardSettings) -> float | None:
    """The reward of a record with other weights; None for an answer that was not scored."""
    numbers = record.numbers
    if record.reward is None or "alignment" not in numbers:
        return None
    over = max(0, record.length - settings.char_threshold) / settings.char_threshold
    parts = RewardParts(
        numbers["alignment"], over, numbers["info_value"], numbers["defense_penalty"]
    )
    return total_reward(parts, settings)
