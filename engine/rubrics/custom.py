"""A reward function of the recipe's own, under verl's ``compute_score`` contract."""

from __future__ import annotations

import importlib.util
import inspect
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.errors import UsageError
from engine.rubrics.judge.base import ScoringError
from engine.rubrics.scoring import RolloutScore

CustomReward = Callable[..., Any]
_NO_NUMBERS = (str, bytes, Sequence, Mapping)


def load_custom(path: Path, name: str) -> CustomReward:
    """The function of ``reward.custom_reward_function``. UsageError when ``path`` is no file that
    can be run, or has no such function."""
    spec = importlib.util.spec_from_file_location("custom_reward", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UsageError(f"reward.custom_reward_function.path={path}: no Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(f"{path} cannot be run: {type(error).__name__}: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise UsageError(f"reward.custom_reward_function.name={name}: {path} has no such function")
    found: CustomReward = function
    return found


async def custom_score(
    function: CustomReward,
    text: str,
    *,
    data_source: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any],
) -> tuple[RolloutScore, dict[str, float]]:
    """The score, and the numbers beside it. The function returns a number, or a mapping with
    ``score``; what it raises is the score's error."""
    started = time.perf_counter()
    reward, error = None, None
    numbers: dict[str, float] = {}
    try:
        result = function(
            data_source=data_source,
            solution_str=text,
            ground_truth=ground_truth,
            extra_info=dict(extra_info),
        )
        result = await result if inspect.isawaitable(result) else result
        if isinstance(result, Mapping):
            numbers = _numbers(result)
            result = result["score"]
        reward = _finite(float(result))
    except Exception as failure:
        error = ScoringError("other", f"{type(failure).__name__}: {failure}")
    duration = time.perf_counter() - started
    question = question_of(extra_info)
    score = RolloutScore(question, text, (), reward=reward, duration_s=duration, error=error)
    return score, numbers


def question_of(extra_info: Mapping[str, Any]) -> str:
    """The name a row is recorded under; rows that others prepared may have a number only."""
    return str(extra_info.get("question_id", extra_info.get("index", "")))


def _numbers(result: Mapping[str, Any]) -> dict[str, float]:
    """Texts and lists, such as the answer that was parsed, are left out. verl wants one set of
    names for all rollouts, so what is missing in one of them is NaN."""
    told = ((name, value) for name, value in result.items() if not isinstance(value, _NO_NUMBERS))
    return {name: math.nan if value is None else float(value) for name, value in told}


def _finite(reward: float) -> float:
    """verl would train on a NaN, skip the update and end with exit code 0."""
    if not math.isfinite(reward):
        raise ValueError(f"the reward function returned {reward}")
    return reward
