"""Bad input is normal input: one clear line, exit code 2, nothing half-written."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.e2e.project import Project, make_project

pytestmark = pytest.mark.waits


@pytest.fixture
def project(tiny_world: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project that could launch: tiny data, and the base model instead of an SFT checkpoint."""
    made = make_project(tmp_path_factory.mktemp("project"))
    (made.path / "data").symlink_to(tiny_world.path / "data")
    return made


Refused = Callable[..., str]
MODEL = "actor_rollout_ref.model.path=data/tiny/model"


@pytest.fixture
def refused(project: Project) -> Refused:
    """Launches; gives the one line that says why it is refused."""

    def launch(*arguments: str) -> str:
        return refusal(project, project.run("launch", *arguments))

    return launch


def refusal(project: Project, done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert not (project.path / "runs").exists() or not any((project.path / "runs").iterdir())
    return done.stderr


def test_the_same_launch_without_a_fault_is_accepted(project: Project) -> None:
    done = project.run_program("launch", "grpo_tiny", MODEL, "--dry-run")
    assert done.returncode == 0, done.stderr


def test_a_missing_config(project: Project) -> None:
    """In a process of its own, as a person launches."""
    line = refusal(project, project.run_program("launch", "grpo_tinny"))
    assert "did you mean 'grpo_tiny'" in line


def test_an_unknown_key(refused: Refused) -> None:
    line = refused("grpo_tiny", MODEL, "data.train_batch_siz=4")
    assert "did you mean 'data.train_batch_size'" in line


def test_a_missing_parquet(refused: Refused) -> None:
    line = refused("grpo_tiny", MODEL, "data.train_files=data/nowhere.parquet")
    assert "data/nowhere.parquet" in line


def test_an_empty_parquet(project: Project, refused: Refused) -> None:
    train = pq.read_table(project.path / "data/tiny/processed/train.parquet")
    pq.write_table(train.slice(0, 0), project.path / "empty.parquet")
    line = refused("grpo_tiny", MODEL, "data.train_files=empty.parquet")
    assert "empty.parquet" in line


def test_a_prompt_column_of_strings(project: Project, refused: Refused) -> None:
    train = pq.read_table(project.path / "data/tiny/processed/train.parquet")
    column = train.schema.get_field_index("prompt")
    texts = pa.array(["[]"] * train.num_rows)
    pq.write_table(train.set_column(column, "prompt", texts), project.path / "texts.parquet")
    line = refused("grpo_tiny", MODEL, "data.train_files=texts.parquet")
    assert "prompt" in line
    assert "texts.parquet" in line


def test_batch_sizes_that_do_not_divide(refused: Refused) -> None:
    line = refused("grpo_tiny", MODEL, "actor_rollout_ref.actor.ppo_mini_batch_size=3")
    assert "ppo_mini_batch_size" in line


def test_missing_credentials(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_OPENAI_API_KEY", "AZURE_API_KEY", "AZURE_OPENAI_ENDPOINT"):
        monkeypatch.setenv(name, "")
    line = refused("grpo_tiny", MODEL, "judge.provider=azure", "judge.model=m")
    assert "AZURE_OPENAI_API_KEY" in line


@pytest.fixture
def busy_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_busy_port(refused: Refused, busy_port: int) -> None:
    line = refused("sft_tiny", f"training.master_port={busy_port}")
    assert str(busy_port) in line


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system without a free byte."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    mount = tmp_path / "full"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(mount)]
    if subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("this machine does not let tests mount")
    with contextlib.suppress(OSError), (mount / "ballast").open("wb", buffering=0) as ballast:
        while ballast.write(b"x" * 4096):
            pass
    yield mount
    subprocess.run(["umount", str(mount)], check=True)


def test_a_full_disk(refused: Refused, full_disk: Path) -> None:
    line = refused("grpo_tiny", MODEL, "--runs", str(full_disk / "runs"))
    assert str(full_disk) in line
    assert [path.name for path in full_disk.iterdir()] == ["ballast"]


def test_a_run_name_that_cannot_be_a_folder(refused: Refused) -> None:
    assert "../up" in refused("grpo_tiny", MODEL, "--name", "../up")


def test_a_run_name_that_is_taken(project: Project) -> None:
    (project.path / "runs" / "mine").mkdir(parents=True)
    done = project.run("launch", "grpo_tiny", MODEL, "--name", "mine")
    assert done.returncode == 2
    assert "run 'mine' already exists" in done.stderr


def test_an_unknown_run(project: Project) -> None:
    done = project.run("show", "nobody")
    assert done.returncode == 2
    assert "run 'nobody' does not exist" in done.stderr
