"""The runs of a folder that have not ended."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.run.identity import Identity
from engine.run.processes import identify
from engine.run.registry import ActiveRuns
from engine.run.run import Run
from engine.run.state import RunState, write_state


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run whose supervisor is this process."""
    made = Run(tmp_path / "run")
    made.path.mkdir()
    write_state(made, RunState("running", supervisor=identify(os.getpid())))
    return made


def test_a_run_is_active_until_its_state_has_ended(run: Run) -> None:
    active = ActiveRuns(run.path.parent)
    assert [state.state for state in active.read().values()] == ["running"]
    write_state(run, RunState("finished"))
    assert active.read() == {}


def test_a_run_that_is_resumed_is_active_again(run: Run) -> None:
    active = ActiveRuns(run.path.parent)
    write_state(run, RunState("failed"))
    assert active.read() == {}
    write_state(run, RunState("starting", supervisor=identify(os.getpid()), attempt=2))
    assert list(active.read()) == ["run"]


def test_a_run_whose_supervisor_is_gone_is_not_active(run: Run) -> None:
    write_state(run, RunState("running", supervisor=Identity(2**22 + 1, 1, "another boot")))
    assert ActiveRuns(run.path.parent).read() == {}


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_a_state_file_that_somebody_broke_does_not_end_a_run(run: Run, text: str) -> None:
    active = ActiveRuns(run.path.parent)
    active.read()
    run.state_file.write_text(text)
    assert list(active.read()) == ["run"]


def test_a_state_file_that_somebody_removed_does_not_end_a_run(run: Run) -> None:
    active = ActiveRuns(run.path.parent)
    active.read()
    run.state_file.unlink()
    assert list(active.read()) == ["run"]


def test_a_folder_that_was_removed_holds_no_run(run: Run) -> None:
    active = ActiveRuns(run.path.parent)
    active.read()
    run.state_file.unlink()
    run.path.rmdir()
    assert active.read() == {}
