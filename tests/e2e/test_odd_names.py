"""Nothing goes through a shell: odd names are carried verbatim or refused in one line."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.e2e.project import (
    ODD_FOLDER,
    ODD_TEXT,
    Project,
    files_of_executed_names,
    make_project,
)

pytestmark = pytest.mark.waits

MODEL = "actor_rollout_ref.model.path=data/tiny/model"
ODD_RUN_NAMES = (
    "two words",
    "a;touch pwned",
    "$(touch pwned)",
    "`touch pwned`",
    "it's",
    'a"b',
    "line\nbreak",
    "../up",
    "a/b",
    "..",
    "-rf",
    "a\x1b[31mred",
    "x" * 101,
)


@pytest.fixture
def project(tiny_world: Project, tmp_path: Path) -> Project:
    made = make_project(tmp_path / ODD_FOLDER)
    (made.path / "data").symlink_to(tiny_world.path / "data")
    return made


def test_invalid_run_names_are_refused_in_one_line(project: Project) -> None:
    for name in ODD_RUN_NAMES:
        done = project.run("launch", "grpo_tiny", MODEL, f"--name={name}")
        assert done.returncode == 2, name
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
        assert "\x1b" not in done.stderr
    assert not (project.path / "runs").exists()


def test_invalid_names_of_requested_runs_are_refused_in_one_line(project: Project) -> None:
    for name in ("../configs", "$(touch pwned)", "\x1b[31m", "line\nbreak"):
        for command in ("show", "stop", "resume", "metrics"):
            done = project.run(command, name)
            assert done.returncode == 2, (command, name)
            assert len(done.stderr.strip().splitlines()) == 1, done.stderr
            assert "\x1b" not in done.stderr
    assert files_of_executed_names(project.path) == []


def test_an_override_of_odd_text_is_carried_verbatim(project: Project) -> None:
    value = f"grubrics.description={ODD_TEXT}"
    plan = project.json("launch", "grpo_tiny", MODEL, value, "--dry-run")
    assert value in plan["argv"]
    shown = project.run_program("launch", "grpo_tiny", MODEL, value, "--dry-run").stdout
    assert value in shlex.split(shown.splitlines()[0])


def test_a_folder_that_verl_would_take_for_a_pattern_is_refused(
    tiny_world: Project, tmp_path: Path
) -> None:
    made = make_project(tmp_path / "runs [1]")
    (made.path / "data").symlink_to(tiny_world.path / "data")
    done = made.run("launch", "grpo_tiny", MODEL)
    assert done.returncode == 2
    assert "glob pattern" in done.stderr
