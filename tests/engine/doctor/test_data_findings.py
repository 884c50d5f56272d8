"""What is wrong with the very data that a run was trained on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine.base import jsonl
from engine.base.files import fingerprints
from engine.config.frozen import pinned_config
from engine.config.load import load_config
from engine.config.places import data_files
from engine.doctor.data_findings import data_findings
from engine.run.manifest import Setting
from engine.run.run import Run
from tests.engine.checks.project import make_project


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    make_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def launched(root: Path, *changed: str) -> Run:
    """A run of the project, as far as its data goes."""
    config = load_config("grpo", changed)
    run = Run(root / "runs" / "r")
    run.path.mkdir(parents=True)
    entries = {
        key: Setting(value, config.origins.get(key, "default"))
        for key, value in config.values.items()
    }
    run.config_file.write_text(pinned_config(entries))
    data = {name: {"sha256": hash} for name, hash in fingerprints(data_files(config)).items()}
    jsonl.write_json(run.manifest_file, {"v": 1, "data": data})
    return run


def test_a_run_that_validates_on_its_training_data(root: Path) -> None:
    run = launched(root, "data.val_files=data/train.parquet")
    assert [finding.id for finding in data_findings(run)] == ["validation_is_training"]


def test_a_run_on_sound_data_has_nothing_to_find(root: Path) -> None:
    assert data_findings(launched(root)) == []


def test_data_that_was_made_anew_since_says_nothing_of_the_run(root: Path) -> None:
    run = launched(root, "data.val_files=data/train.parquet")
    with (root / "data/train.parquet").open("ab") as handle:
        handle.write(b"x")
    assert data_findings(run) == []


def test_a_folder_that_is_gone_altogether_raises_nothing(root: Path) -> None:
    run = launched(root)
    shutil.rmtree(root / "data")
    shutil.rmtree(root / "models")
    assert data_findings(run) == []
