"""The table of an evaluation on terminals of usual widths."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from engine.base import jsonl
from engine.measure.evaluate import Progress, evaluate, summarize
from engine.measure.measures import Metric
from engine.measure.summary import compare_targets, find_results
from grubrics_tui.commands.shared import evaluation_text
from grubrics_tui.commands.shared.evaluation_text import evaluation_lines, overview_lines
from grubrics_tui.commands.shared.progress import ProgressLine
from tests.engine.measure.evaluation_rows import make_rows
from tests.engine.measure.evaluations import make_data, make_evaluation

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


class Stream(StringIO):
    """What stderr got, as a terminal or a pipe."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def test_a_terminal_gets_progress_only_when_it_changes() -> None:
    stream = Stream(is_terminal=True)
    line = ProgressLine(stream)
    for _ in range(3):
        line.show("1/2 answers", "base")
    line.show("2/2 answers")
    for _ in range(3):
        line.show("2/2 answers", ended=True)
    shorter = "2/2 answers".ljust(len("1/2 answers, base"))
    assert stream.getvalue() == f"\r1/2 answers, base\r{shorter}\r2/2 answers\n"


def test_a_pipe_gets_progress_when_the_target_changes_and_every_half_minute() -> None:
    stream, seconds = Stream(is_terminal=False), iter(range(0, 10_000, 5))
    now = 0.0
    line = ProgressLine(stream, lambda: now)
    for now in seconds:
        answers = min(now // 10, 8)
        line.show(f"{answers}/8 answers", "base" if now < 35 else "run", ended=answers == 8)
        if answers == 8:
            break
    assert stream.getvalue().splitlines() == [
        "0/8 answers, base (0:00)",
        "3/8 answers, base (0:30)",
        "3/8 answers, run (0:35)",
        "6/8 answers, run (1:05)",
        "8/8 answers, run (1:20)",
    ]


def test_an_evaluation_reports_answers_scores_and_its_end_once(tmp_path: Path) -> None:
    evaluation = make_evaluation(make_data(tmp_path / "val.parquet", ["a", "b"]), "golden")
    told: list[Progress] = []
    evaluate(evaluation, {}, told.append)
    assert told[-1] == Progress(2, 2, 2, "", is_last=True)
    assert [progress.is_last for progress in told].count(True) == 1
    assert {progress.scored for progress in told} >= {1, 2}


def test_answers_without_a_call_are_named(tmp_path: Path) -> None:
    evaluation = make_evaluation(make_data(tmp_path / "val.parquet", ["a", "b"]), "golden")
    evaluate(evaluation, {})
    scores = evaluation.folder.find(evaluation.targets[0]).scores
    rows = [{**row, "calls": calls} for row, calls in zip(jsonl.read(scores), (0, 1), strict=True)]
    scores.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    text = "\n".join(evaluation_lines(evaluation, *summarize(evaluation, [])))
    assert "graded: 2 answers by 1 call; no call for 1 empty answer" in text


def overview(tmp_path: Path, files: Sequence[str], target: str) -> list[str]:
    """The overview of files on whose two items the target is right once and three times."""
    evaluations, results = [], []
    rates: list[list[list[float | None]]] = [[[1, 0], [0, None]], [[1, 1], [1, 0]]]
    for name, rewards in zip(files, rates, strict=True):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        evaluations.append(make_evaluation(make_data(tmp_path / name, ["a", name]), "golden"))
        rows = make_rows(target, rewards)
        results.append(find_results(rows, [Metric("reward", 0.0, "rate")], samples=2))
    return list(overview_lines(evaluations, results))


def test_an_overview_has_a_row_for_each_file(tmp_path: Path) -> None:
    assert overview(tmp_path, ["gsm8k.parquet", "math.parquet"], "run:4") == [
        "data   target  reward                    best@2  pass@2  n  unscored",
        "gsm8k  run:4    0.333  (0.000 to 1.000)  1.000   1.000   3  1",
        "math   run:4    0.750  (0.000 to 1.000)  1.000   1.000   4  0",
    ]


def test_files_of_one_name_have_the_names_of_their_evaluations(tmp_path: Path) -> None:
    _, *rows = overview(tmp_path, ["a/val.parquet", "b/val.parquet"], "run:4")
    assert len({row.split()[0] for row in rows}) == 2


@pytest.mark.parametrize("width", [80, 100])
def test_an_overview_is_not_wider_than_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setattr(evaluation_text, "terminal_width", lambda: width)
    lines = overview(tmp_path, ["gsm8k.parquet", "math.parquet"], LONG.format(2000))
    assert all(len(line) <= width for line in lines)
    assert all("\u2026" in line for line in lines[1:])
