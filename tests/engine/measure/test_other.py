"""Targets of another evaluation as baselines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.measure.baselines import find_other
from engine.measure.evaluate import Evaluation, evaluate, summarize
from engine.measure.folder import read_target
from tests.engine.measure.evaluations import make_data, make_evaluation

pytestmark = pytest.mark.long


@pytest.fixture
def night(tmp_path: Path) -> Evaluation:
    """A complete evaluation of another folder."""
    folder = tmp_path / "night"
    folder.mkdir()
    evaluation = make_evaluation(make_data(folder / "val.parquet", ["a", "b"]), "golden")
    evaluate(evaluation, {})
    return evaluation


def compared_with(other: Evaluation, evaluation: Evaluation) -> Evaluation:
    baseline = find_other(f"{other.folder.path}:golden")
    assert baseline is not None
    return replace(evaluation, targets=[baseline, *evaluation.targets])


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_its_rows_are_compared_and_nothing_is_added_to_it(
    tmp_path: Path, night: Evaluation
) -> None:
    before = contents(night.folder.path)
    own = make_evaluation(make_data(tmp_path / "val.parquet", ["a", "b"]), "random")
    evaluation = compared_with(night, own)
    evaluate(evaluation, {})
    _, pairs = summarize(evaluation, [evaluation.targets[0].name])
    assert {(pair.b, pair.comparison.difference.n) for pair in pairs} == {("random", 2)}
    assert contents(night.folder.path) == before


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["a", "b", "c"], "has no answer to item 'c'"),
        (["a"], "has an answer to item 'b', which is not among the 1 here"),
    ],
)
def test_other_items_are_refused_and_the_first_is_named(
    tmp_path: Path, night: Evaluation, names: list[str], problem: str
) -> None:
    own = make_evaluation(make_data(tmp_path / "val.parquet", names), "random")
    with pytest.raises(UsageError, match=problem):
        evaluate(compared_with(night, own), {})
    assert not own.folder.path.exists()


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("data.max_response_length=7", "sampling.max_answer_tokens was .* and is 7 here"),
        ("reward_config.lambda_info=0", "scoring.reward.lambda_info was 0.3 and is 0 here"),
        ("judge.temperature=0.5", "scoring.judge.temperature was"),
    ],
)
def test_another_sampling_or_scoring_is_refused_and_named(
    tmp_path: Path, night: Evaluation, override: str, problem: str
) -> None:
    own = make_evaluation(make_data(tmp_path / "val.parquet", ["a", "b"]), "random", [override])
    with pytest.raises(UsageError, match=problem):
        evaluate(compared_with(night, own), {})


def test_an_evaluation_with_one_target_needs_no_name(night: Evaluation) -> None:
    found = find_other(str(night.folder.path))
    assert found is not None
    assert Path(found.source).name.startswith("golden-")


def test_a_damaged_description_of_a_target_is_replaced(night: Evaluation) -> None:
    [target] = night.targets
    (night.folder.find(target).path / "target.json").write_text('{"na')
    assert read_target(night.folder.add(target).path / "target.json") == target


def test_an_unknown_target_is_refused_with_the_nearest(night: Evaluation) -> None:
    with pytest.raises(UsageError, match="did you mean 'golden'"):
        find_other(f"{night.folder.path}:goldn")


def test_other_names_are_no_evaluation(tmp_path: Path) -> None:
    assert find_other("base") is None
    assert find_other("run:60") is None
    assert find_other(str(tmp_path)) is None
