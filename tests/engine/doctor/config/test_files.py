"""The checklist's failures by the class they belong to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine import jsonl
from engine.data.fingerprints import fingerprints
from engine.doctor.config.files import data_findings, file_findings
from engine.doctor.finding import Finding
from engine.launch.launcher import data_files
from engine.launch.pinned import pinned_recipe
from engine.launch.recipe import load_recipe
from engine.runs.rundir import RunDir
from tests.engine.doctor.metrics.curves import alarms
from tests.engine.preflight.project import make_project


def diagnose(root: Path, *changed: str) -> list[Finding]:
    return file_findings(load_recipe("grpo", changed), {}, root / "runs")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_sound_project_has_no_alarm(root: Path) -> None:
    assert alarms(diagnose(root)) == []


def test_validation_on_training_data(root: Path) -> None:
    found = diagnose(root, "data.val_files=data/train.parquet")
    assert alarms(found) == ["validation_is_training"]


def test_a_missing_file(root: Path) -> None:
    (root / "data" / "train.parquet").unlink()
    assert "data_missing_or_schema.file" in alarms(diagnose(root))


def test_batch_sizes_that_do_not_fit_come_with_their_changes(root: Path) -> None:
    found = diagnose(root, "actor_rollout_ref.actor.ppo_mini_batch_size=3")
    one = next(one for one in found if one.id == "config_error.batch")
    assert all(change.kind == "config" for change in one.remedies[0].changes)


def test_steps_that_cannot_be_reached(root: Path) -> None:
    found = diagnose(root, "trainer.total_training_steps=5000")
    capped = next(one for one in found if one.id == "config_error.epochs_cap")
    (change,) = capped.remedies[0].changes
    assert (change.key, change.before) == ("trainer.total_epochs", 2)
    assert isinstance(change.after, int) and change.after >= 5000 / 3


def launched(root: Path, *changed: str) -> RunDir:
    """A run of the project, as far as its data goes."""
    recipe = load_recipe("grpo", changed)
    run = RunDir(root / "runs" / "r")
    run.path.mkdir(parents=True)
    config = {
        k: {"value": v, "origin": recipe.origins.get(k, "default")}
        for k, v in recipe.values.items()
    }
    run.recipe.write_text(pinned_recipe(config))
    data = {name: {"sha256": hash} for name, hash in fingerprints(data_files(recipe)).items()}
    jsonl.write_json(run.manifest, {"v": 1, "data": data})
    return run


def test_a_run_that_validates_on_its_training_data(root: Path) -> None:
    run = launched(root, "data.val_files=data/train.parquet")
    assert [one.id for one in data_findings(run)] == ["validation_is_training"]


def test_a_run_on_sound_data_has_nothing_to_find(root: Path) -> None:
    assert data_findings(launched(root)) == []


def test_data_that_was_made_anew_since_says_nothing_of_the_run(root: Path) -> None:
    run = launched(root, "data.val_files=data/train.parquet")
    with (root / "data/train.parquet").open("ab") as handle:
        handle.write(b"x")
    assert data_findings(run) == []


def test_a_folder_that_is_gone_altogether_raises_nothing(root: Path) -> None:
    recipe = load_recipe("grpo")
    shutil.rmtree(root / "data")
    shutil.rmtree(root / "models")
    file_findings(recipe, {}, root / "runs")
