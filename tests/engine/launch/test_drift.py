"""Differences from the run that is repeated or continued, as a line and as an event."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from engine.base import jsonl
from engine.config.frozen import pinned_config
from engine.config.load import load_config
from engine.launch.drift import describe_drift, select_drift
from engine.launch.launcher import launch, manifest, plan
from engine.launch.plan_launch import config_for_launch, plan_launch
from engine.launch.resume import resume
from engine.run.manifest import AttemptRecord, Difference
from engine.run.run import Run
from engine.run.state import RunState, write_state
from engine.run.trust import vouch
from engine.supervise.stopping import stop_run
from tests.paths import ROOT
from tests.waiting import ended

CONFIG = """
grubrics: {kind: grpo, device: cpu}
algorithm: {adv_estimator: grpo}
data: {train_files: train.jsonl, val_files: val.jsonl, train_batch_size: 4}
trainer: {default_local_dir: checkpoints, resume_mode: disable, total_training_steps: 8}
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run that failed before its first step, launched with another torch."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "try.yaml").write_text(CONFIG)
    for name in ("train.jsonl", "val.jsonl"):
        (tmp_path / name).write_text("{}\n")
    made = Run(tmp_path / "runs" / "first")
    contents = manifest(plan(load_config("try.yaml", [], {}), "first"))
    packages = contents.environment["packages"]
    assert isinstance(packages, dict)
    packages["torch"] = "1.0"
    contents = replace(contents, attempts=[AttemptRecord(number=1, argv=("true",))])
    made.attempt(1).path.mkdir(parents=True)
    made.write_manifest(contents)
    made.config_file.write_text(pinned_config(contents.config))
    write_state(made, RunState("failed", total_steps=8))
    vouch(made)
    return made


def drift_of(run: Run) -> dict[str, Any]:
    (event,) = (event for event in jsonl.read(run.events) if event["event"] == "drift")
    return event


@pytest.mark.row("H11")
@pytest.mark.waits
def test_a_repeated_run_says_how_it_differs(run: Run) -> None:
    Path("train.jsonl").write_text("{}\n{}\n")
    config, again = config_for_launch(run, [], run.path.parent)
    planned = plan_launch(config, run.path.parent, "second", again=again)
    (line,) = planned.warnings
    assert line.startswith("differs from run 'first': train.jsonl changed; torch 1.0 -> ")
    second = launch(planned)
    stop_run(second)
    event = drift_of(second)
    assert event["since"]["run"] == "first"
    assert {change["what"] for change in event["changes"]} == {
        "data.train.jsonl.sha256",
        "environment.packages.torch",
    }


def test_data_that_is_not_used_any_more_is_no_drift(run: Run) -> None:
    Path("train.jsonl").write_text("{}\n{}\n")
    Path("other.jsonl").write_text("{}\n")
    config, again = config_for_launch(run, ["data.train_files=other.jsonl"], run.path.parent)
    planned = plan_launch(config, run.path.parent, "second", again=again)
    assert [change.what for change in planned.drift] == ["environment.packages.torch"]


@pytest.mark.row("H11")
@pytest.mark.waits
def test_a_resumed_run_says_how_it_differs(run: Run) -> None:
    (line,) = resume(run).warnings
    assert line.startswith("differs from attempt 1: torch 1.0 -> ")
    ended(run)
    assert drift_of(run)["since"] == {"attempt": 1}


def test_the_line_names_each_difference() -> None:
    drift = [
        Difference("code.reward.py.sha256", "a", "b"),
        Difference("data.gone.jsonl.sha256", "a", None),
        Difference("environment.packages.verl", None, "0.9.1"),
        Difference("environment.python", "3.11.1", "3.11.2"),
        Difference("git.commit", "0123456789abcdef", "fedcba9876543210"),
        Difference("git.dirty", False, True),
    ]
    assert describe_drift("run 'a'", drift) == (
        "differs from run 'a': reward.py changed; gone.jsonl is gone; verl none -> 0.9.1; "
        "Python 3.11.1 -> 3.11.2; commit 012345678 -> fedcba987; uncommitted changes"
    )


def test_machine_and_variables_are_no_drift() -> None:
    machine = [
        Difference("hardware.memory", 1, 2),
        Difference("environment.variables.WANDB_MODE", None, "offline"),
        Difference("data.train.jsonl.rows", 1, 2),
        Difference("recipe_file.try.yaml.sha256", "a", "b"),
    ]
    assert select_drift(machine) == []
    assert describe_drift("run 'a'", []) is None
