"""The command prune, as typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from engine.run.checkpoints.step_folders import complete_steps
from engine.run.state import RunState
from grubrics_tui.cli import app
from tests.engine.supervise.kept_runs import STEPS, make_run, make_trained


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


def prune(root: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["prune", *words, "--runs", str(root)])


def test_without_a_terminal_nothing_is_deleted_unless_told(root: Path) -> None:
    _, folder = make_trained(root)
    result = prune(root)
    assert result.exit_code == 1
    assert "frees steps 10, 30" in result.output and "add --yes" in result.output
    assert list(complete_steps(folder)) == list(STEPS)


def test_all_ended_runs_are_pruned(root: Path) -> None:
    folders = [make_trained(root, name)[1] for name in ("one", "two")]
    result = prune(root, "--yes", "--json")
    assert json.loads(result.output)["freed_bytes"] > 0
    assert [list(complete_steps(folder)) for folder in folders] == [[20, 40], [20, 40]]


def test_a_dry_run_deletes_nothing(root: Path) -> None:
    _, folder = make_trained(root)
    result = prune(root, "old", "--dry-run", "--yes")
    assert result.exit_code == 0
    assert list(complete_steps(folder)) == list(STEPS)


def test_a_run_that_keeps_its_only_step_has_nothing_to_free(root: Path) -> None:
    make_trained(root)
    prune(root, "old", "--keep", "last", "--yes")
    assert "nothing to free, keeps step 40 (last)" in prune(root, "old", "--keep", "last").output


def test_runs_that_ended_lately_are_left_out(root: Path) -> None:
    make_trained(root)  # In the year 2033.
    assert "nothing to free" in prune(root, "--older", "7d", "--yes").output


def test_a_run_without_checkpoints_has_nothing_to_free(root: Path) -> None:
    make_run(root, state=RunState("failed", ended=1e9))
    assert "keeps all: no checkpoints" in prune(root, "old").output
