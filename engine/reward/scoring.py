"""Score one rubric: ask the judge, apply the formula, record the evidence."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from msgspec.structs import replace

from engine.reward.formula import RewardSettings, reward_parts, total_reward
from engine.reward.judge.interface import Judge, JudgeResult
from engine.reward.own.processes import RewardCallError, RewardTimeoutError
from engine.run.history.reward_records import RewardRecord, ScoringError
from engine.tasks.rubrics import gold_problem, without_thoughts


@dataclass(frozen=True)
class RewardItem:
    """The question, answers and gold scores that a rubric is tested on."""

    question_id: str
    question: str
    answers: tuple[str, ...]
    gold_scores: tuple[float, ...]

    @classmethod
    def from_extra_info(cls, extra: Mapping[str, Any]) -> RewardItem:
        """The item of a row; missing lists become empty and fail in ``problem``."""
        return cls(
            question_id=str(extra.get("question_id", "")),
            question=str(extra.get("question", "")),
            answers=tuple(extra["answers"]) if extra.get("answers") is not None else (),
            gold_scores=(
                tuple(math.nan if score is None else float(score) for score in extra["gold_scores"])
                if extra.get("gold_scores") is not None
                else ()
            ),
        )

    def problem(self) -> str | None:
        """Why this row cannot be scored, or None. Precomputed gold scores are required."""
        if not self.answers or not self.gold_scores:
            return (
                f"Missing precomputed answers/gold_scores for question '{self.question_id}'; "
                "run python -P -m engine.data.precompute, then prepare the data again"
            )
        problem = gold_problem(self.answers, self.gold_scores)
        return None if problem is None else f"question '{self.question_id}' has {problem}"


async def score_rollout(
    rubric: str, item: RewardItem, judge: Judge, settings: RewardSettings
) -> RewardRecord:
    """Score one rubric. Never raises for bad data or a failing judge: the error is in the result.

    An empty rubric has no criteria, so every answer scores 0 without a judge call. Reasoning before
    the rubric is not part of it; reasoning that never ends leaves an empty rubric.
    """
    started = time.perf_counter()
    rubric = without_thoughts(rubric)
    blank = RewardRecord(
        question_id=item.question_id,
        rubric=rubric,
        gold_scores=item.gold_scores,
        failed_attempts=(),
        duration_s=0.0,
        n_chars=len(rubric),
    )
    if (problem := item.problem()) is not None:
        return replace(blank, error=ScoringError("data", problem))
    if rubric.strip():
        result = await judge.evaluate_answers_batched(item.question, item.answers, rubric)
    else:
        result = JudgeResult((0.0,) * len(item.answers), None, None, None, 0)
    record = replace(
        blank,
        judge_scores=result.scores,
        judge_latency_s=result.latency_s,
        semaphore_wait_s=result.semaphore_wait_s,
        attempts=result.attempts,
        failed_attempts=result.failed_attempts,
        tokens=result.tokens,
        error=result.error,
    )
    if result.scores is not None:
        parts = reward_parts(result.scores, item.gold_scores, blank.length, settings.char_threshold)
        record = replace(record, parts=asdict(parts), reward=total_reward(parts, settings))
    return replace(record, duration_s=time.perf_counter() - started)


CustomReward = Callable[..., Any]
_NO_NUMBERS = (str, bytes, Sequence, Mapping)


async def custom_score(
    function: CustomReward,
    text: str,
    *,
    data_source: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any],
) -> tuple[RewardRecord, dict[str, float]]:
    """The record and the numbers that the function returns: ``parts`` are those besides the score.

    It returns a number, or a mapping with ``score``; what it raises is the record's error.
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
            # Texts and lists, such as the parsed answer, are no numbers. verl needs the same names
            # for all rollouts, so a missing number is NaN.
            numbers = {
                name: math.nan if value is None else float(value)
                for name, value in result.items()
                if not isinstance(value, _NO_NUMBERS)
            }
            result = result["score"]
        number = float(result)
        if not math.isfinite(number):
            # verl would skip the update and end with exit code 0.
            raise ValueError(f"the reward function returned {number}")
        reward = number
    except RewardTimeoutError as failure:
        error = ScoringError("reward_timeout", str(failure))
    except RewardCallError as failure:
        error = ScoringError("other", str(failure))
    except Exception as failure:
        error = ScoringError("other", f"{type(failure).__name__}: {failure}")
    record = RewardRecord(
        question_id=question_of(extra_info),
        answer=text,
        ground_truth=(
            ground_truth if isinstance(ground_truth, str | int | float) else str(ground_truth)
        ),
        reward=reward,
        parts={name: value for name, value in numbers.items() if name != "score"} or None,
        duration_s=time.perf_counter() - started,
        error=error,
        n_chars=len(text),
    )
    return record, numbers


def question_of(extra_info: Mapping[str, Any]) -> str:
    """The ID that a row is recorded under; rows of other programs may have only a number."""
    names = (extra_info.get(key) for key in ("question_id", "index"))
    return next((str(name) for name in names if name is not None), "")
