"""Writes rollouts as verl dumps them and records as our reward manager appends them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.base import jsonl

PARTS: dict[str, Any] = {
    "alignment": 0.5,
    "length_penalty": 0.0,
    "info_value": 1.0,
    "defense_penalty": 0.0,
}


def row(
    group: str, rollout: int, score: float | None, *, output: int = 0, **more: Any
) -> dict[str, Any]:
    """A row of verl's dump."""
    texts = {"input": f"prompt of {group}", "output": f"answer {rollout} of {group}", "gts": ""}
    return {**texts, "score": score, "uid": f"{group}_{rollout}_{output}", **more}


def record(
    group: str, rollout: int, reward: float | None, step: int, **more: Any
) -> dict[str, Any]:
    """A line of reward.jsonl."""
    error = None if reward is not None else {"kind": "timeout", "message": "no answer in 60 s"}
    return {
        "v": 1, "t": 1.5, "split": "train", "step": step, "group": group, "rollout": rollout,
        "question_id": f"question of {group}", "rubric": f"answer {rollout} of {group}",
        "reward": reward, "parts": PARTS if reward is not None else None,
        "judge_scores": [0.9, 0.1] if reward is not None else None, "gold_scores": [1.0, 0.0],
        "error": error, "n_chars": 20, **more,
    }  # fmt: skip


def write_dump(
    attempt: Path, step: int, rows: Iterable[dict[str, Any]], to: str = "rollouts"
) -> None:
    (attempt / to).mkdir(parents=True, exist_ok=True)
    for one in rows:
        jsonl.append(attempt / to / f"{step}.jsonl", {"step": step, **one})


def write_records(attempt: Path, records: Iterable[dict[str, Any]]) -> None:
    attempt.mkdir(parents=True, exist_ok=True)
    for one in records:
        jsonl.append(attempt / "reward.jsonl", one)


def write_step(attempt: Path, step: int, groups: Mapping[str, Sequence[float | None]]) -> None:
    """A step of a run: what failed (None) is recorded but not dumped."""
    for group, scores in groups.items():
        numbered = list(enumerate(scores))
        write_records(attempt, [record(group, n, score, step) for n, score in numbered])
        kept = [row(group, n, score) for n, score in numbered if score is not None]
        write_dump(attempt, step, kept)


def write_manifest(run: Path, **config: Any) -> None:
    run.mkdir(parents=True, exist_ok=True)
    entries = {key.replace("__", "."): {"value": value} for key, value in config.items()}
    jsonl.write_json(run / "manifest.json", {"v": 1, "config": entries})
