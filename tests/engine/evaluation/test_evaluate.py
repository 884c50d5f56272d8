"""What an evaluation writes, and what it does not do again."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.evaluation.evaluate import evaluate, summarize
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
