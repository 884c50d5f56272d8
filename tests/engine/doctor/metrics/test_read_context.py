"""What a run directory says of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.base import jsonl
from engine.doctor.metrics import Start, metric_findings, read_context
from engine.run.kinds import COMMAND, GRPO
from engine.run.run import Run
from engine.run.state import RunState
from tests.engine.doctor.metrics.curves import columns, find

VALUES: dict[str, Any] = {
    "reward_config.lambda_len": 0.1,
    "reward_config.lambda_info": 0.3,
    "reward_config.lambda_defense": 0.3,
    "reward_config.char_threshold": 3000,
    "data.max_response_length": 64,
    "trainer.total_training_steps": 2000,
    "trainer.total_epochs": 30,
    "trainer.resume_mode": "auto",
}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    manifest = {
        "v": 1,
        "kind": "grpo",
        "total_steps": 90,
        "config": {key: {"value": value, "origin": "file"} for key, value in VALUES.items()},
        "attempts": [{"number": 1}, {"number": 2, "from_step": 50}],
    }
    jsonl.write_json(tmp_path / "manifest.json", manifest)
    return Run(tmp_path)


def test_config_steps_and_limits_are_those_of_the_manifest(run: Run) -> None:
    context = read_context(run, RunState("finished"), columns({"actor/lr": [1e-6] * 4}))
    assert context.get("trainer.total_epochs") == 30
    assert (context.kind, context.total_steps, context.asked_steps) == (GRPO, 90, 2000)
    assert context.reward_range == (-1.3, 1.3)
    assert context.has_ended
    assert context.starts == (Start(1, 1, None, False), Start(2, 51, 50, True))


def test_epochs_that_cap_the_run_are_found_from_the_manifest_alone(run: Run) -> None:
    logged = columns({"actor/lr": [1e-6] * 4})
    findings = metric_findings(logged, read_context(run, RunState("running"), logged))
    assert find(findings, "config_error.epochs_cap").fixes[0].changes[0].after == 667


def test_a_first_attempt_that_begins_late_went_on_from_an_earlier_checkpoint(run: Run) -> None:
    logged = columns({"actor/lr": [1e-6] * 4}, first_step=21)
    findings = metric_findings(logged, read_context(run, RunState("running"), logged))
    assert find(findings, "checkpoint_corrupt_or_mismatch.resume_unasked").onset_step == 21


def test_a_command_that_logs_every_fifth_step_was_not_resumed(run: Run) -> None:
    jsonl.write_json(run.manifest_file, {"v": 1, "kind": COMMAND, "attempts": [{"number": 1}]})
    logged = columns({"train/loss": [2.0] * 4}, first_step=5)
    assert read_context(run, RunState("finished"), logged).starts == ()


def test_validation_before_the_first_step_is_no_step(run: Run) -> None:
    logged = columns({"val/reward": [0.1, 0.2], "actor/lr": [float("nan"), 1e-6]}, first_step=0)
    (first, _) = read_context(run, RunState("running"), logged).starts
    assert first.resumed_from is None


def test_a_folder_without_a_manifest_says_nothing(tmp_path: Path) -> None:
    context = read_context(Run(tmp_path), RunState("lost"), columns({"actor/lr": [1e-6]}))
    assert (context.kind, dict(context.config), context.starts) == (None, {}, ())
