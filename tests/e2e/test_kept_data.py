"""A run whose training file is edited continues with the data of its launch."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base import jsonl
from engine.base.files import content_hash
from engine.run.history.train_log import read_steps
from engine.run.run import Run
from tests.e2e.project import Project

pytestmark = pytest.mark.slow


def losses(run: Run, attempt: int, after: int) -> dict[int, float | None]:
    steps = [step for step in read_steps(run.train_log) if step.attempt == attempt]
    return {step.step: step.metrics["train/loss"] for step in steps if step.step > after}


@pytest.mark.thorough
@pytest.mark.row("H09")
def test_a_resumed_run_trains_on_the_data_of_its_launch(tiny_world: Project) -> None:
    source = tiny_world.path / "few.jsonl"
    lines = (tiny_world.path / "data/tiny/sft/train.jsonl").read_text().splitlines()
    source.write_text("\n".join(lines[:16]) + "\n")
    launched = content_hash(source)
    settings = (
        "data.train_file=few.jsonl",
        "training.per_device_train_batch_size=4",
        "training.max_steps=6",
        "training.save_steps=3",
        "training.output_dir=checkpoints/kept",
    )
    tiny_world.json("launch", "sft_tiny", *settings, "--name", "kept", "--wait")
    source.write_text("\n".join(lines[16:32]) + "\n")
    run = Run(tiny_world.path / "runs/kept")
    answer = tiny_world.json("resume", "kept", "--from", "3", "--wait")
    assert "continues with the copy" in answer["warnings"][0]
    assert losses(run, 2, 3) == losses(run, 1, 3) != {}
    check_hashes(run, source, launched)


def check_hashes(run: Run, source: Path, launched: str) -> None:
    """The log has the hash of the copy, and the change of the source."""
    events = list(jsonl.read(run.events))
    (dataset,) = (event for event in events if event["event"] == "dataset")
    assert content_hash(run.path / dataset["copy"]) == dataset["sha256"] == launched
    (resumed,) = (event for event in events if event["event"] == "resume")
    after = {change["what"]: change["after"] for change in resumed["changes"]}
    assert after["data.few.jsonl.sha256"] == content_hash(source)
