"""How much of a cache can teach a ranking."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.data.analyze import analyze, classify, main


@pytest.mark.parametrize(
    ("gold", "kind"),
    [
        ([0.0, 0.0, 0.0], "parse_failure"),
        ([0.4, 0.4, 0.4], "zero_variance"),
        ([0.40, 0.42, 0.44], "low_variance"),
        ([0.1, 0.9, 0.5], "good"),
        ([40.0, 43.0, 42.0], "other_scale"),
    ],
)
def test_gold_scores_are_classified_by_quality(gold: list[float], kind: str) -> None:
    assert classify(gold) == kind


def test_the_reference_cache_is_78_9_percent_useful() -> None:
    golds = [[0.0, 0.0]] + [[0.5, 0.5]] + [[0.50, 0.52]] * 2 + [[0.1, 0.9]] * 15
    assert analyze(golds).signal_useful_pct == pytest.approx(78.9, abs=0.05)


def test_scores_fall_into_ten_bins() -> None:
    assert analyze([[0.0, 0.05, 1.0]]).histogram == (2, 0, 0, 0, 0, 0, 0, 0, 0, 1)


@pytest.mark.parametrize(("useful", "code"), [(9, 0), (8, 1)])
def test_the_command_answers_whether_90_percent_are_useful(
    useful: int, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = tmp_path / "cache.jsonl"
    golds = [[0.1, 0.9]] * useful + [[0.5, 0.5]] * (10 - useful)
    lines = [json.dumps({"question_id": str(i), "gold_scores": g}) for i, g in enumerate(golds)]
    cache.write_text("\n".join(lines) + "\n")
    assert main([str(cache), "--json"]) == code
    assert json.loads(capsys.readouterr().out)["signal_useful_pct"] == 10 * useful


def test_gold_scores_that_are_not_finite_are_unusable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = tmp_path / "cache.jsonl"
    lines = ['{"question_id": "a", "gold_scores": [0.1, 0.9]}']
    lines += ['{"question_id": "b", "gold_scores": [NaN, 0.9]}']
    cache.write_text("\n".join(lines) + "\n")
    assert main([str(cache), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["total"] == 1


def test_a_missing_cache_is_unusable_input(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        main([str(tmp_path / "gone.jsonl")])
