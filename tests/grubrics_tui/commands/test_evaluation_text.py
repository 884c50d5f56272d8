"""The table of an evaluation on terminals of usual widths."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.evaluation.evaluate import evaluate, summarize
from engine.evaluation.measures import Metric
from engine.evaluation.summary import compare_targets, find_results
from grubrics_tui.commands.shared import evaluation_text
from grubrics_tui.commands.shared.evaluation_text import evaluation_lines
from tests.engine.evaluation.evaluation_rows import make_rows
from tests.engine.evaluation.evaluations import make_data, make_evaluation

LONG = "checkpoints/grubrics-transfer/a-run-with-a-long-name-of-the-night/global_step_{}"


@pytest.mark.parametrize("width", [80, 100, None])
def test_no_line_is_wider_than_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int | None
) -> None:
    monkeypatch.setattr(evaluation_text, "terminal_width", lambda: width)
    metrics = [Metric("reward", worst=-0.3)]
    base = make_rows(LONG.format(100), [[0.1], [0.3], [0.2], [None]])
    run = make_rows(LONG.format(2000), [[0.2], [0.2], [0.3], [None]])
    results = [result for target in (base, run) for result in find_results(target, metrics)]
    pairs = compare_targets([base], [run], metrics)
    evaluation = make_evaluation(make_data(tmp_path / "val.parquet", ["a"]), "golden")
    lines = list(evaluation_lines(evaluation, results, pairs))
    without_paths = [line for line in lines if str(tmp_path) not in line]
    assert all(len(line) <= (width or 100) for line in without_paths)
    text = "\n".join(lines)
    assert "…" in text
    assert "global_step_2000" in text
    assert "1 unscored; if all are wrong: 0.100 (" in text
    assert "1 item left out" in text


def test_short_names_keep_each_result_on_one_line(tmp_path: Path) -> None:
    evaluation = make_evaluation(make_data(tmp_path / "val.parquet", ["a", "b"]), "golden")
    evaluate(evaluation, {})
    results, _ = summarize(evaluation, [])
    result = replace(results[0], unscored=3, if_wrong=results[0].estimate)
    assert [line for line in evaluation_lines(evaluation, [result], []) if "golden" in line] == [
        "  golden   1.300  (all 2 equal)  3 unscored; if all are wrong: 1.300 (all 2 equal)"
    ]
