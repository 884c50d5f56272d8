"""Numbers of other writers under canonical names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any, TypeVar

from engine.base import jsonl
from engine.history import metrics
from engine.history.train_log import Metrics
from engine.runs.kinds import GRPO, SFT, Kind

_VALIDATION = re.compile(r"val-(?:core|aux)/.+/reward/mean@\d+")
_LARGEST = 1e100  # as in ``jsonl.number``
_NUMBERS = frozenset({int, float})
_Value = TypeVar("_Value")
_REWARD = {metrics.REWARD_MEAN: "mean", metrics.REWARD_MIN: "min", metrics.REWARD_MAX: "max"}


def all_bounded(values: list[Any]) -> bool:
    """Whether what JSON gave are all numbers, and such as metrics hold."""
    return (
        set(map(type, values)) <= _NUMBERS and -_LARGEST <= min(values) <= max(values) <= _LARGEST
    )


def bounded(value: float) -> float | None:
    """A number as metrics hold it: None for a NaN, an infinity and what is as good as one."""
    return value if -_LARGEST <= value <= _LARGEST else None


def number(value: Any) -> float | None:
    """A number or the text of one, as HF's Trainer prints them; ValueError for anything else."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | str | bytes):
        raise ValueError("not a number")
    try:
        return bounded(float(value))
    except OverflowError:
        return None


def clean_name(raw: bytes | str) -> str:
    """A metric's name as one harmless line of text, under its canonical name."""
    text = raw if isinstance(raw, str) else raw.decode("utf-8", errors="replace")
    return metrics.canonical(jsonl.line(text.strip()) or "")


def with_rewards(values: Metrics) -> Metrics:
    """verl's metrics with what they say of the reward and of validation, by canonical name."""
    return with_validation(with_scores(values))


def with_scores(values: dict[str, _Value]) -> dict[str, _Value]:
    """verl's score is our reward; its ``critic/rewards`` is the score less a KL penalty, if any."""
    for name, part in _REWARD.items():
        for source in (f"critic/score/{part}", f"critic/rewards/{part}"):
            if source in values:
                values.setdefault(name, values[source])
    return values


def with_validation(values: Metrics) -> Metrics:
    """verl's validation rewards are one mean over its data sources."""
    validated = [name for name in values if name.startswith("val-")]
    found = [values[name] for name in validated if _VALIDATION.fullmatch(name)]
    if found:
        known = [value for value in found if value is not None]
        values.setdefault(metrics.VALIDATION_REWARD, fmean(known) if known else None)
    return values


def kind_of(names: Iterable[str]) -> Kind:
    """SFT for a log with a loss and no rewards, else GRPO: the kind whose panels fit it."""
    known = set(names)
    rewards = any(name.startswith(("reward/", "critic/", "judge")) for name in known)
    return SFT if not rewards and metrics.TRAIN_LOSS in known else GRPO


def find_setting(config: Mapping[str, Any], *paths: str) -> Any:
    """The first of the dotted ``paths`` that a nested ``config`` has; None when it has none."""
    for path in paths:
        found: Any = config
        for key in path.split("."):
            found = found.get(key) if isinstance(found, dict) else None
        if found is not None:
            return found
    return None
