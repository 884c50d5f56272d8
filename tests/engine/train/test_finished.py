"""With which exit code a trainer ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.base import jsonl
from engine.train.grpo import check_finished

CONFIG: dict[str, Any] = {
    "trainer": {
        "val_only": True,
        "total_training_steps": 40,
        "total_epochs": 30,
        "default_local_dir": "checkpoints",
    }
}


def test_a_run_that_only_validates_ends_well_with_its_validation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = {"step": 20, "data": {"val-core/tiny/reward/mean@1": 0.5}}
    jsonl.append(tmp_path / "metrics.jsonl", line)
    assert check_finished(CONFIG, tmp_path) == 0
    assert "validated at step 20" in capsys.readouterr().out


def test_without_a_validation_it_has_failed_and_blames_no_epochs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check_finished(CONFIG, tmp_path) == 1
    assert "total_epochs" not in capsys.readouterr().err
