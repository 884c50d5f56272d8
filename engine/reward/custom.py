"""Call a config's reward function, under verl's ``compute_score`` contract."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from engine.judge.interface import ScoringError
from engine.own_reward.processes import RewardCallError, RewardTimeoutError
from engine.reward.scoring import RolloutScore

CustomReward = Callable[..., Any]
_NO_NUMBERS = (str, bytes, Sequence, Mapping)


async def custom_score(
    function: CustomReward,
    text: str,
    *,
    data_source: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any],
) -> tuple[RolloutScore, dict[str, float]]:
    """The score and the other numbers that the function returns.

    It returns a number, or a mapping with ``score``; what it raises is the score's error.
    """
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
    except RewardTimeoutError as failure:
        error = ScoringError("reward_timeout", str(failure))
    except RewardCallError as failure:
        error = ScoringError("other", str(failure))
    except Exception as failure:
        error = ScoringError("other", f"{type(failure).__name__}: {failure}")
    duration = time.perf_counter() - started
    question = question_of(extra_info)
    score = RolloutScore(question, text, (), reward=reward, duration_s=duration, error=error)
    return score, numbers


def own_record(score: RolloutScore, numbers: Mapping[str, float], truth: Any) -> dict[str, Any]:
    """The fields of a reward.jsonl line for a reward function.

    ``parts`` are the numbers besides the score. The text is an ``answer``, not a rubric, and there
    are no fields of a judge.
    """
    return {
        "question_id": score.question_id,
        "answer": score.rubric,
        "ground_truth": truth if isinstance(truth, str | int | float) else str(truth),
        "reward": score.reward,
        "parts": {name: value for name, value in numbers.items() if name != "score"} or None,
        "duration_s": score.duration_s,
        "error": None if score.error is None else asdict(score.error),
        "n_chars": len(score.rubric),
    }


def question_of(extra_info: Mapping[str, Any]) -> str:
    """The ID that a row is recorded under; rows of other programs may have only a number."""
    names = (extra_info.get(key) for key in ("question_id", "index"))
    return next((str(name) for name in names if name is not None), "")


def _numbers(result: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a result, without texts and lists such as the parsed answer.

    verl needs the same names for all rollouts, so a missing number is NaN.
    """
    numbers = (
        (name, value) for name, value in result.items() if not isinstance(value, _NO_NUMBERS)
    )
    return {name: math.nan if value is None else float(value) for name, value in numbers}


def _finite(reward: float) -> float:
    """Refuse NaN and infinity: verl would skip the update and end with exit code 0."""
    if not math.isfinite(reward):
        raise ValueError(f"the reward function returned {reward}")
    return reward
