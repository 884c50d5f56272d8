"""What end-to-end tests share: the tiny world and an SFT checkpoint, made once per session.

Every file of tests has its own copy, so that no test meets what another file's runs left behind,
in whatever order and on however many workers they run.
"""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.project import Project, copied, make_project

SFT_STEPS = 200
SFT_BATCH = 4
"""Half of the config's steps, of half its batch: the rubrics are long, but they are rubrics."""


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of all workers of this session."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if base.name.startswith("popen-gw") else base) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


def made_once(folder: Path, name: str, make: Callable[[], Any]) -> Any:
    """What ``make`` returns, as JSON. The first worker makes it while the others wait."""
    answer = folder / f"{name}.json"
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not answer.exists():
            answer.write_text(json.dumps(make()))
    return json.loads(answer.read_text())


@pytest.fixture(scope="session")
def pristine_world(shared: Path) -> Project:
    """A project whose tiny world is made, for copies only."""

    def make() -> str:
        shutil.rmtree(shared / "pristine", ignore_errors=True)
        project = make_project(shared / "pristine")
        made = project.python("-m", "engine.data.tiny_world")
        assert made.returncode == 0, made.stderr
        return str(project.path)

    return Project(Path(made_once(shared, "world", make)))


@pytest.fixture(scope="session")
def pristine_sft(pristine_world: Project, shared: Path) -> tuple[Project, dict[str, Any]]:
    """A project with the tiny SFT run, really run, and how it ended; for copies only."""
    project = Project(shared / "sft")

    def make() -> Any:
        shutil.rmtree(project.path, ignore_errors=True)
        copied(pristine_world, project.path)
        short = (
            f"training.max_steps={SFT_STEPS}",
            f"training.per_device_train_batch_size={SFT_BATCH}",
        )
        return project.json("launch", "sft_tiny", *short, "--name", "sft", "--wait")

    return project, made_once(shared, "sft", make)


@pytest.fixture(scope="module")
def tiny_world(pristine_world: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """This file's own project, with the tiny world in it."""
    return copied(pristine_world, tmp_path_factory.mktemp("world") / "project")


@pytest.fixture(scope="module")
def trained_sft(
    pristine_sft: tuple[Project, dict[str, Any]], tiny_world: Project
) -> dict[str, Any]:
    """How the tiny SFT run ended; GRPO starts from its checkpoint, a copy in ``tiny_world``."""
    project, answer = pristine_sft
    shutil.copytree(
        project.path / "checkpoints", tiny_world.path / "checkpoints", dirs_exist_ok=True
    )
    return answer
