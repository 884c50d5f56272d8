"""The layout of a run that executes a command follows from what it logs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from engine.base import jsonl
from engine.run.history.train_log import Step
from engine.run.kinds import COMMAND, GRPO, SFT, Kind
from engine.run.run import Run
from grubrics_tui.model.run_source import kind_of


@pytest.fixture
def run(tmp_path: Path) -> Run:
    jsonl.write_json(tmp_path / "manifest.json", {"v": 1, "kind": COMMAND})
    return Run(tmp_path)


@pytest.mark.parametrize(
    ("first", "kind"), [({"train/loss": 2.0}, SFT), ({"reward/mean": 0.5, "train/loss": 2.0}, GRPO)]
)
def test_a_command_is_shown_like_the_kind_whose_metrics_it_logs(
    run: Run, first: Mapping[str, float], kind: Kind
) -> None:
    for number, metrics in ((1, first), (2, {"train_runtime": 9.0})):
        jsonl.append(run.train_log, Step(number, 1, 0.0, metrics).to_json())
    assert kind_of(run) is kind


def test_a_command_that_logs_nothing_is_of_no_kind(run: Run) -> None:
    assert kind_of(run) is None
