"""What is recorded about machine, code and data before step 0."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.base.errors import UsageError
from engine.base.masking import mask, shown
from engine.run.host.environment import (
    fingerprint,
    git_snapshot,
    hardware_snapshot,
    package_versions,
    steering_variables,
)
from engine.run.manifest import FileFacts

SECRET = "sk-abcdefghijklmnopqrstuvwxa1b2"


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=Test", "-c", "user.email=test@example.org")
    command = ["git", *identity, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_variables_that_steer_a_run_are_kept_and_others_are_not() -> None:
    env = {"CUDA_VISIBLE_DEVICES": "1", "HOME": "/home/x", "REWARD_LAMBDA_INFO": "0.0"}
    variables = steering_variables(env)
    assert variables == {"CUDA_VISIBLE_DEVICES": "1", "REWARD_LAMBDA_INFO": "0.0"}


def test_secrets_are_masked_by_name_and_by_form() -> None:
    env = {
        "OPENAI_API_KEY": SECRET,
        "HF_TOKEN": "short",
        "WANDB_BASE_URL": f"https://user:{SECRET}@wandb.example.org/?api_key={SECRET}&x=1",
    }
    variables = steering_variables(env)
    assert variables == {
        "HF_TOKEN": "…",
        "OPENAI_API_KEY": "…a1b2",
        "WANDB_BASE_URL": "https://…@wandb.example.org/?api_key=…&x=1",
    }


def test_versions_are_those_installed() -> None:
    assert package_versions()["pyarrow"] == pa.__version__


def test_a_mask_never_shows_half_of_a_secret() -> None:
    assert mask(SECRET) == "…a1b2"
    assert mask("0123456789abcde") == "…"
    assert shown("JUDGE_MODEL", "gpt-5-mini") == "gpt-5-mini"


def test_a_repository_is_recorded_with_commit_branch_and_changes(tmp_path: Path) -> None:
    git(tmp_path, "init", "-b", "work")
    (tmp_path / "file").write_text("one")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    commit = git(tmp_path, "rev-parse", "HEAD")
    clean = {"commit": commit, "branch": "work", "dirty": False}
    assert git_snapshot(tmp_path) == clean
    (tmp_path / "file").write_text("two")
    assert git_snapshot(tmp_path) == {**clean, "dirty": True}


def test_outside_a_repository_there_is_nothing_to_record(tmp_path: Path) -> None:
    assert git_snapshot(tmp_path) is None
    assert git_snapshot(tmp_path / "missing") is None


def test_hardware_names_processor_and_memory() -> None:
    hardware = hardware_snapshot()
    assert hardware["cpu_count"] == os.cpu_count()
    assert hardware["memory"] == psutil.virtual_memory().total
    assert isinstance(hardware["gpus"], list)


@pytest.mark.row("H08")
def test_data_files_are_fingerprinted_with_their_rows(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2, 3]}), tmp_path / "train.parquet")
    (tmp_path / "train.jsonl").write_text('{"a": 1}\n\n{"a": 2}\n')
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "torn.parquet").write_text("hello")
    rows = {path.name: fingerprint(path).rows for path in tmp_path.iterdir()}
    assert rows == {"train.parquet": 3, "train.jsonl": 2, "notes.txt": None, "torn.parquet": None}
    hello = FileFacts(hashlib.sha256(b"hello").hexdigest(), bytes=5)
    assert fingerprint(tmp_path / "notes.txt") == hello


def test_a_data_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"missing\.parquet: No such file"):
        fingerprint(tmp_path / "missing.parquet")
