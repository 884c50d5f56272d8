"""What an evaluation writes, and what it does not do again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.evaluation.evaluate import Evaluation, evaluate, summarize
from engine.evaluation.folder import EvaluationDir
from engine.evaluation.setup import make_setup, read_data
from engine.evaluation.targets import find_baseline
from engine.recipe.recipe import load_recipe
from tests.engine.evaluation.evaluations import make_data, make_evaluation


def test_a_complete_evaluation_is_shown_without_writing_anything(tmp_path: Path) -> None:
    evaluation = make_evaluation(make_data(tmp_path / "val.parquet", ["a", "b"]), "golden")
    evaluate(evaluation, {})
    before = summarize(evaluation, [])
    (evaluation.folder.path / "lock").unlink()
    evaluate(evaluation, {})
    assert summarize(evaluation, []) == before
    assert not (evaluation.folder.path / "lock").exists()


def test_a_folder_of_another_evaluation_is_refused(tmp_path: Path) -> None:
    evaluation = make_evaluation(make_data(tmp_path / "val.parquet", ["a"]), "golden")
    other = make_evaluation(make_data(tmp_path / "other.parquet", ["b"]), "golden")
    other.folder.path.parent.mkdir(exist_ok=True)
    evaluate(evaluation, {})
    evaluation.folder.path.rename(other.folder.path)
    with pytest.raises(UsageError, match="holds another evaluation"):
        evaluate(other, {})


def test_texts_have_no_loss(tmp_path: Path) -> None:
    path = tmp_path / "sft.jsonl"
    talk = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    path.write_text(json.dumps({"messages": talk}))
    recipe = load_recipe("sft_tiny", (), {})
    items = read_data(path, None, recipe)
    setup = make_setup(path, items, recipe, 1, 1)
    golden = find_baseline("golden", recipe, tmp_path)
    evaluation = Evaluation(EvaluationDir(tmp_path / "e"), setup, items, [golden], recipe)
    with pytest.raises(UsageError, match="baseline 'golden' is no model with weights"):
        evaluate(evaluation, {})
