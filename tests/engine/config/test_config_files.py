"""Configs by name: those of the working folder, then the packaged ones, even without a checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import UsageError
from engine.config.config_files import (
    CONFIG_DIR,
    PIPELINE,
    config_folders,
    config_names,
    find_config,
    list_configs,
    packaged_configs,
)
from engine.data.presets import load_presets

ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, description: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"grubrics: {{kind: sft, description: {description}}}\n", encoding="utf-8")


def test_a_config_of_the_working_folder_hides_the_packaged_one(folder: Path) -> None:
    assert find_config("grpo_tiny") == packaged_configs() / "grpo_tiny.yaml"
    write(folder / "configs" / "grpo_tiny.yaml", "mine")
    assert find_config("grpo_tiny") == CONFIG_DIR / "grpo_tiny.yaml"
    listed = {config.name: config.description for config in list_configs()}
    assert listed["grpo_tiny"] == "mine" and "sft_tiny" in listed


def test_a_checkout_has_one_folder_of_configs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert config_folders() == [CONFIG_DIR]


def test_an_unknown_name_is_refused_with_both_folders(folder: Path) -> None:
    with pytest.raises(UsageError) as caught:
        find_config("grpo_tinny")
    message = str(caught.value)
    assert "configs/" in message and str(packaged_configs()) in message
    assert "did you mean 'grpo_tiny'?" in message


def test_the_error_of_an_unknown_pipeline_names_pipelines(folder: Path) -> None:
    with pytest.raises(UsageError) as caught:
        find_config("grpo_tiny_", PIPELINE)
    message = str(caught.value)
    assert message.startswith("pipeline 'grpo_tiny_' does not exist; known: pipeline_tiny ")


def test_a_folder_is_not_said_to_be_missing(folder: Path) -> None:
    (folder / "mine.yaml").mkdir()
    with pytest.raises(UsageError, match="no regular file"):
        find_config("mine.yaml")


def test_other_yaml_files_are_no_configs(folder: Path) -> None:
    (folder / "notes.yaml").write_text("a: 1\n", encoding="utf-8")
    assert "training_presets" not in config_names()
    assert "notes.yaml" not in [config.name for config in list_configs()]


def test_presets_are_found_in_any_folder(folder: Path) -> None:
    assert load_presets().presets


@pytest.mark.thorough
@pytest.mark.waits
def test_an_installed_copy_finds_the_packaged_configs_in_any_folder(tmp_path: Path) -> None:
    source, unpacked, empty = tmp_path / "source", tmp_path / "unpacked", tmp_path / "empty"
    empty.mkdir()
    source.mkdir()
    files = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")
    for name in (*files, "constraints-gpu.txt"):
        shutil.copy(ROOT / name, source)
    for name in ("engine", "grubrics_tui", "configs"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    options = ["--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir", str(tmp_path)]
    build = [sys.executable, "-m", "pip", "wheel", ".", *options]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    packaged = {path.name for path in (unpacked / "engine" / "configs").iterdir()}
    assert packaged == {path.name for path in (ROOT / "configs").glob("*.yaml")}
    assert (unpacked / "engine" / "constraints-gpu.txt").is_file(), "install_command names it"
    assert (unpacked / "engine" / "py.typed").is_file()
    assert (unpacked / "grubrics_tui" / "py.typed").is_file()

    def answer(*arguments: str) -> tuple[int, Any]:
        env = {**os.environ, "PYTHONPATH": str(unpacked), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "grubrics_tui", *arguments, "--json"]
        done = subprocess.run(command, cwd=empty, env=env, capture_output=True)
        return done.returncode, json.loads(done.stdout.splitlines()[0])

    code, config = answer("config", "grpo_tiny")
    files = config["values"]["data.train_files"]
    assert (code, config["kind"]) == (0, "grpo")
    assert files == {"value": "data/tiny/processed/train.parquet", "origin": "file"}
    code, checked = answer("check", "grpo_tiny")
    failed = {check["id"] for check in checked["checks"] if check["status"] == "fail"}
    assert code == 1 and {"parquet", "checkpoint"} <= failed
    assert str(unpacked / "engine" / "configs") in json.dumps(checked)
