"""Reward records as the training process writes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.base import jsonl

Record = dict[str, Any]
Make = Callable[[int, int, int], Record]
"""The record of a step, a group and a rollout."""
RUBRIC = "Points: 4, Item: Names the dose {n}.\nPoints: 2, Item: Warns about {n}."
GOLD = [0.0, 0.4, 1.0]


def scored(step: int, group: int, rollout: int, **fields: Any) -> Record:
    """A rollout whose reward differs from those beside it."""
    n = 100 * step + 10 * group + rollout
    return {
        "v": 1,
        "t": 1000.0 + n,
        "split": "train",
        "step": step,
        "group": f"s{step}g{group}",
        "rollout": rollout,
        "question_id": f"q{group}",
        "rubric": RUBRIC.format(n=n),
        "gold_scores": GOLD,
        "reward": 0.1 + 0.2 * rollout,
        "parts": {
            "alignment": 0.2 * rollout,
            "length_penalty": 0.0,
            "info_value": 0.5,
            "defense_penalty": 0.1,
        },
        "judge_scores": [0.1, 0.2 * rollout, 0.9],
        "attempts": 1,
        "failed_attempts": [],
        "error": None,
        **fields,
    }


def failing(kind: str, message: str = "it failed") -> Make:
    """Rollouts that have an error in place of a reward."""

    def make(step: int, group: int, rollout: int) -> Record:
        error = {"kind": kind, "message": message}
        return scored(step, group, rollout, reward=None, parts=None, judge_scores=None, error=error)

    return make


def write(folder: Path, make: Make, steps: range, groups: int = 4, n: int = 4) -> Path:
    """Append records of whole steps; returns the file."""
    path = folder / "reward.jsonl"
    for step in steps:
        for group in range(groups):
            for rollout in range(n):
                jsonl.append(path, make(step, group, rollout))
    return path
