"""What end-to-end tests share: the tiny world and an SFT checkpoint, made once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.project import Project, make_project


@pytest.fixture(scope="session")
def tiny_world(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose tiny world is made. Shared: tests do not change it."""
    project = make_project(tmp_path_factory.mktemp("world"))
    made = project.python("-m", "engine.data.tiny_world")
    assert made.returncode == 0, made.stderr
    return project


@pytest.fixture(scope="session")
def trained_sft(tiny_world: Project) -> dict[str, Any]:
    """The tiny SFT run, really run; GRPO starts from what it leaves."""
    answer: dict[str, Any] = tiny_world.json("launch", "sft_tiny", "--name", "sft", "--wait")
    return answer
