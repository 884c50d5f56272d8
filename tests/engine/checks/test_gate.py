"""A run that had to wait is checked once more, and then becomes its trainer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.base import files
from engine.base.errors import UsageError
from engine.checks import gate
from engine.config.frozen import pinned_config
from engine.launch.launcher import GATE, manifest, plan
from engine.run.checkpoints.ownership import claim
from engine.run.processes import identify
from engine.run.run import ATTEMPT_DIR_VARIABLE, Run
from engine.run.state import RunState, write_state
from tests.engine.checks.project import Project
from tests.paths import ROOT

pytestmark = pytest.mark.waits


@pytest.fixture
def run(project: Project) -> Run:
    """A run as its supervisor has it when it starts: its checkpoint folder is claimed."""
    launch_plan = plan(project.config("sft"), "waits", project.root / "runs")
    made, contents = Run(launch_plan.directory), manifest(launch_plan)
    made.attempt(1).path.mkdir(parents=True)
    files.write_atomic(made.config_file, pinned_config(contents.config))
    made.write_manifest(contents)
    write_state(made, RunState("starting", supervisor=identify(os.getpid())))
    claim(made)
    return made


def pass_gate(run: Run) -> subprocess.CompletedProcess[str]:
    command = [*GATE, sys.executable, "-c", "print('training')"]
    paths = {"PYTHONPATH": str(ROOT), ATTEMPT_DIR_VARIABLE: str(run.attempt(1).path)}
    return subprocess.run(command, env={**os.environ, **paths}, capture_output=True, text=True)


def test_when_nothing_has_changed_it_becomes_the_trainer(run: Run) -> None:
    done = pass_gate(run)
    assert (done.returncode, done.stdout) == (0, "training\n"), done


def test_a_model_that_is_gone_meanwhile_ends_it_in_one_line(run: Run, project: Project) -> None:
    (project.root / str(project.config("sft").get("model.path")) / "config.json").unlink()
    done = pass_gate(run)
    assert done.returncode == 2
    assert done.stdout.startswith("UsageError: not started: checkpoint: ")
    assert done.stdout.count("\n") == 1


def test_data_that_changed_while_the_run_waited_is_refused(run: Run, project: Project) -> None:
    path = Path(next(iter(run.read_manifest().data)))
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(UsageError, match=f"{path.name} changed"):
        gate.require_startable(run)
