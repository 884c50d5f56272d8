"""Evaluations in a folder, with items that every judge and function can score."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.config.load import load_config
from engine.data.contract import FileFacts, Row, write_rows
from engine.measure.evaluate import Evaluation
from engine.measure.folder import EvaluationDir
from engine.measure.items import read_items
from engine.measure.setup import make_setup
from engine.measure.targets import find_baseline

RUBRIC = "Points: 6, Item: Names glucose\nPoints: 4, Item: Names insulin"


def make_row(name: str) -> Row:
    """An item whose golden rubric ranks its answers as the gold scores do."""
    question = f"What is diabetes? ({name})"
    return {
        "data_source": "test",
        "prompt": [{"role": "user", "content": question}],
        "reward_model": {"ground_truth": "", "style": "rubric"},
        "extra_info": {
            "question_id": name,
            "question": question,
            "golden_rubric": RUBRIC,
            "answers": ["Glucose and insulin", "Weather"],
            "gold_scores": [1.0, 0.0],
        },
    }


def make_data(path: Path, names: Sequence[str]) -> Path:
    """A parquet file with one item per name."""
    facts = FileFacts("test", "val", use_contrastive=False, holdout=None, seed=1)
    write_rows(path, [make_row(name) for name in names], facts)
    return path


def make_evaluation(
    data: Path, baseline: str, overrides: Sequence[str] = (), samples: int = 1
) -> Evaluation:
    """An evaluation of one baseline, kept in ``evaluations`` beside the data."""
    config = load_config("grpo_tiny", tuple(overrides), {})
    items = read_items(data)
    setup = make_setup(data, items, config, samples, seed=1)
    folder = EvaluationDir(data.parent / "evaluations" / setup.id)
    target = find_baseline(baseline, config, data.parent / "runs")
    return Evaluation(folder, setup, items, [target], config)
