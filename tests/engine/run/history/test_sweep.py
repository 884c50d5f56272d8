"""What a sweep leaves in the folder of its run, and how the live view learns of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.base import jsonl
from engine.run.history.live import RunWatch
from engine.run.history.sweep import Sweep, SweepPoint, read_sweep, sweep_path, write_sweep
from engine.run.run import Run
from tests.engine.report.runs import make_run

SWEEP = Sweep(
    "tiny-1a2b3c",
    "reward",
    (SweepPoint(0, 0.2, 0.1, 0.3, 16, 0), SweepPoint(10, 0.5, None, None, 1, 15)),
)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_run(tmp_path)


def test_a_sweep_is_read_as_it_was_written(run: Run) -> None:
    write_sweep(run, SWEEP)
    assert read_sweep(run) == SWEEP


def test_the_best_checkpoint_has_the_highest_mean() -> None:
    assert SWEEP.best == SWEEP.points[1]
    assert Sweep("e", "reward", ()).best is None


def test_the_best_checkpoint_of_a_loss_has_the_lowest_mean(run: Run) -> None:
    write_sweep(run, replace(SWEEP, metric="loss", lower_is_better=True))
    swept = read_sweep(run)
    assert swept is not None
    assert swept.best == SWEEP.points[0]


@pytest.mark.parametrize(
    "raw", [{}, {"evaluation": "e", "metric": "reward"}, {"evaluation": 1, "points": []}]
)
def test_a_file_of_another_kind_is_no_sweep(run: Run, raw: dict[str, object]) -> None:
    jsonl.write_json(sweep_path(run), raw)
    assert read_sweep(run) is None


def test_a_point_without_a_number_is_left_out(run: Run) -> None:
    points = [{"step": 5, "mean": "high"}, 7, {"step": 10, "mean": 0.5, "n": 4}]
    jsonl.write_json(sweep_path(run), {"evaluation": "e", "metric": "reward", "points": points})
    sweep = read_sweep(run)
    assert sweep is not None
    assert sweep.points == (SweepPoint(10, 0.5, None, None, 4, 0),)


def test_a_watched_run_brings_a_sweep_once_and_again_when_it_changes(run: Run) -> None:
    watch = RunWatch(run)
    assert watch.poll().sweep is None
    write_sweep(run, SWEEP)
    assert watch.poll().sweep == SWEEP
    assert watch.poll().sweep is None
    longer = Sweep(SWEEP.evaluation, SWEEP.metric, SWEEP.points[:1])
    write_sweep(run, longer)
    assert watch.poll().sweep == longer
