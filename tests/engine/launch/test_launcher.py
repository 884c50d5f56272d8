"""A launch appears whole or not at all."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.checks.check import warn
from engine.config.load import Config, load_config
from engine.launch.launcher import launch, manifest, plan, start_run
from engine.run.host.programs import own_module, typed_words
from engine.run.manifest import AttemptRecord, Parent, Setting

pytestmark = pytest.mark.long

CONFIG = """
grubrics: {kind: grpo, device: cpu}
data: {train_files: none.parquet, train_batch_size: 4}
trainer: {default_local_dir: checkpoints/x}
"""


IDLE = [AttemptRecord(number=1, argv=("true",))]
"""Attempts of a run whose trainer does nothing."""


@pytest.fixture
def config(tmp_path: Path) -> Config:
    path = tmp_path / "try.yaml"
    path.write_text(CONFIG)
    return load_config(str(path), ["data.train_batch_size=8"], {"JUDGE_MAX_CONCURRENT": "3"})


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system that fills up while the manifest is written."""
    mount = tmp_path / "small"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", str(mount)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("mounting a small file system needs root")
    yield mount
    with contextlib.suppress(subprocess.CalledProcessError):
        subprocess.run(["umount", str(mount)], check=True)


def test_a_disk_that_fills_up_during_the_launch_leaves_nothing(
    config: Config, full_disk: Path
) -> None:
    with pytest.raises(UsageError, match="No space left on device; nothing was launched"):
        launch(plan(config, "try", full_disk))
    assert list(full_disk.iterdir()) == []


def test_a_launch_removes_the_remains_of_a_killed_one(config: Config, tmp_path: Path) -> None:
    left = tmp_path / "runs" / ".launch-abc"
    left.mkdir(parents=True)
    os.utime(left, (1e9, 1e9))
    taken = plan(config, "try", tmp_path / "runs")
    (taken.directory / "by somebody else").mkdir(parents=True)
    with pytest.raises(UsageError, match="already exists"):
        launch(taken)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["try"]


def test_a_module_of_the_project_folder_does_not_replace_pythons(tmp_path: Path) -> None:
    (tmp_path / "random.py").write_text("raise SystemExit('the wrong random.py')")
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "__init__.py").write_text("raise SystemExit('the wrong engine')")
    command = own_module("engine.supervise.ray_jobs")
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert "wrong" not in done.stderr
    assert 'engine/supervise/ray_jobs.py", line' in done.stderr


@pytest.mark.row("H33")
def test_the_command_is_one_that_a_person_could_type(config: Config, tmp_path: Path) -> None:
    argv = plan(config, "try", tmp_path).argv
    program = typed_words("engine.train.grpo")
    assert argv == (*program, "--config", str(config.path), "data.train_batch_size=8")


def test_the_manifest_says_where_every_value_came_from(config: Config, tmp_path: Path) -> None:
    described = manifest(plan(config, "try", tmp_path))
    assert described.world_size == 8  # training.n_gpus
    settings = described.config
    assert settings["data.train_batch_size"] == Setting(8, "cli")
    assert settings["judge.max_concurrent"] == Setting(3, "environment")
    assert settings["trainer.default_local_dir"].origin == "file"
    assert settings["judge.provider"].origin == "default"


def test_a_run_made_from_another_one_names_it(config: Config, tmp_path: Path) -> None:
    derived = plan(config, "derived", tmp_path, parent=Parent("unhealthy", "fix"))
    assert manifest(derived).parent == Parent("unhealthy", "fix")
    assert manifest(plan(config, "alone", tmp_path)).parent is None


def test_runs_of_the_same_second_get_names_of_their_own(config: Config, tmp_path: Path) -> None:
    first = plan(config, None, tmp_path)
    first.directory.mkdir()
    assert plan(config, None, tmp_path).run_id != first.run_id


@pytest.mark.parametrize("name", ["../up", "a b", "$(id)", "a/b", "-rf", "x" * 101, "a\nb"])
def test_a_name_that_is_not_a_plain_folder_name_is_refused(
    config: Config, tmp_path: Path, name: str
) -> None:
    with pytest.raises(UsageError):
        plan(config, name, tmp_path)


@pytest.mark.row("H14")
def test_the_log_of_a_run_begins_with_its_data_and_the_warnings_of_the_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.jsonl").write_text("{}\n{}\n")
    Path("try.yaml").write_text(CONFIG.replace("none.parquet", "train.jsonl"))
    planned = plan(load_config("try.yaml"), "try", tmp_path / "runs")
    warned = planned.with_warnings([warn("disk", "12 GB are free")])
    run = start_run(warned.directory, lambda: replace(manifest(warned), attempts=IDLE))
    assert (run.path.parent / ".gitignore").read_text() == "*\n"
    data, warning = list(jsonl.read(run.events))[1:3]
    assert (data["event"], data["path"], data["rows"]) == ("dataset", "train.jsonl", 2)
    assert (warning["event"], warning["message"]) == ("warning", "disk: 12 GB are free")
