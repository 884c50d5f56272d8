"""The answers to a benchmark are scored by its task, whatever the config scores."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.base.typed import to_json
from engine.config.load import load_config
from engine.data.benchmarks import BENCHMARKS, find_benchmark
from engine.data.prepare_task import PrepareOptions, prepare_benchmark
from engine.measure.evaluate import Evaluation, evaluate, summarize
from engine.measure.folder import AnswerRow, EvaluationDir
from engine.measure.items import Item, read_items
from engine.measure.setup import make_setup, scored_as
from engine.measure.summary import Result
from engine.measure.targets import Target
from tests.engine.data.benchmark_records import write_records
from tests.engine.measure.evaluations import make_data

MODEL = Target("model", "model", "models/base", "5eed" * 16)
WRONG = {"squad_v2": "<answer>the stone bridge</answer>", "hotpotqa": "<answer>river Marn</answer>"}
"""Half right; the other benchmarks have no such answers."""


def prepared(folder: Path, name: str) -> Path:
    options = PrepareOptions(folder / "out")
    prepare_benchmark(find_benchmark(name), [write_records(folder, name)], options)
    return folder / "out" / f"{name}.parquet"


def evaluated(folder: Path, name: str) -> dict[str, Result]:
    """The results of a model that answers each item once right and once wrong."""
    path = prepared(folder, name)
    config = scored_as(load_config("grpo_tiny", (), {}), path)
    items = read_items(path)
    setup = make_setup(path, items, config, samples=2, seed=1)
    evaluation = Evaluation(EvaluationDir(folder / "e"), setup, items, [MODEL], config)
    evaluation.folder.open(setup)
    answers = evaluation.folder.add(MODEL).answers
    for item in items:
        for sample, text in enumerate((right_answer(name, item), WRONG.get(name, "7"))):
            row = AnswerRow(item.uid, sample, item.sha256, item.prompt_sha256, text, 5, True)
            jsonl.append(answers, to_json(row))
    evaluate(evaluation, os.environ)
    return {result.metric: result for result in summarize(evaluation, [])[0]}


def right_answer(name: str, item: Item) -> str:
    task = BENCHMARKS[name].task
    return task.right_answer(item.row["reward_model"]["ground_truth"], item.row["extra_info"])


@pytest.mark.sample(2)
@pytest.mark.row("A16", "H25")
@pytest.mark.waits
@pytest.mark.parametrize("name", BENCHMARKS)
def test_an_evaluation_has_mean_best_and_pass_at_k_of_a_benchmark(
    tmp_path: Path, name: str
) -> None:
    results = evaluated(tmp_path, name)
    means = {name: each.estimate.mean for name, each in results.items() if each.estimate}
    f1 = {"squad_v2": (1 + 2 / 3 + 1 + 0) / 4, "hotpotqa": (1 + 2 / 3) / 2}
    shares = {"f1": pytest.approx(f1[name])} if name in f1 else {}
    assert means == {"reward": 0.5, "best@2": 1.0, "pass@2": 1.0, **shares}
    assert {result.unscored for result in results.values()} == {0}


def test_the_task_takes_the_place_of_the_configs_function_and_of_its_arguments(
    tmp_path: Path,
) -> None:
    overrides = (
        "reward.custom_reward_function.path=own.py",
        "reward.custom_reward_function.name=grade",
        "+reward.custom_reward_function.reward_kwargs.strict=true",
    )
    config = load_config("grpo_tiny", overrides, {})
    scoring = make_setup(
        path := prepared(tmp_path, "squad_v2"), [], scored_as(config, path), 1, 1
    ).scoring
    assert (scoring["function"], scoring["kwargs"]) == ("task reading", {})


def test_other_files_are_scored_as_the_config_says(tmp_path: Path) -> None:
    config = load_config("grpo_tiny", (), {})
    path = make_data(tmp_path / "val.parquet", ["a"])
    assert scored_as(config, path) is config


def test_a_config_for_sft_scores_no_benchmark(tmp_path: Path) -> None:
    path = prepared(tmp_path, "gsm8k")
    with pytest.raises(UsageError, match=r"is the benchmark gsm8k, and .* --config CONFIG"):
        scored_as(load_config("sft_tiny", (), {}), path)
