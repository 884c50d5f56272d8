"""What end-to-end tests share: the tiny world and an SFT checkpoint, made once.

Every file of tests has its own copy, so that no test meets what another file's runs left behind,
in whatever order and on however many workers they run.
"""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from tests.e2e.project import Project, copied, make_project


@pytest.fixture(scope="session")
def pristine_world(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose tiny world is made, for copies only."""
    project = make_project(tmp_path_factory.mktemp("pristine"))
    made = project.python("-m", "engine.data.tiny_world")
    assert made.returncode == 0, made.stderr
    return project


@pytest.fixture(scope="session")
def pristine_sft(pristine_world: Project) -> dict[str, Any]:
    """The tiny SFT run, really run there."""
    answer: dict[str, Any] = pristine_world.json("launch", "sft_tiny", "--name", "sft", "--wait")
    return answer


@pytest.fixture(scope="module")
def tiny_world(pristine_world: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """This file's own project, with the tiny world in it."""
    return copied(pristine_world, tmp_path_factory.mktemp("world") / "project")


@pytest.fixture(scope="module")
def trained_sft(
    pristine_world: Project, pristine_sft: dict[str, Any], tiny_world: Project
) -> dict[str, Any]:
    """How the tiny SFT run ended; GRPO starts from its checkpoint, a copy in ``tiny_world``."""
    left = pristine_world.path / "checkpoints"
    shutil.copytree(left, tiny_world.path / "checkpoints", dirs_exist_ok=True)
    return pristine_sft
