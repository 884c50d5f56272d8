"""The queue from the command line. Nothing is trained: the runs wait, or are refused."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.base import jsonl
from engine.launch.launcher import start_supervisor
from engine.run.run import Run
from engine.run.state import RunState, write_state
from tests.e2e.project import Project, make_project
from tests.manifests import change_manifest
from tests.waiting import wait_for

pytestmark = pytest.mark.waits

MODEL = "actor_rollout_ref.model.path=data/tiny/model"
LONG = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def project(tiny_world: Project, tmp_path: Path) -> Project:
    made = make_project(tmp_path / "project")
    (made.path / "data").symlink_to(tiny_world.path / "data")
    return made


@pytest.fixture
def busy(project: Project) -> Iterator[Run]:
    """A run that goes on for as long as a test takes."""
    run = Run(project.path / "runs" / "busy")
    run.attempt(1).path.mkdir(parents=True)
    attempt = {"number": 1, "argv": LONG}
    manifest = {"id": "busy", "kind": "sft", "cwd": str(project.path), "attempts": [attempt]}
    jsonl.write_json(run.manifest_file, {**manifest, "config": {}, "total_steps": 9})
    write_state(run, RunState("starting", heartbeat=time.time()))
    start_supervisor(run)
    yield run
    project.run("stop", "busy")


@pytest.mark.thorough
def test_a_waiting_run_is_shown_with_what_it_waits_for(project: Project, busy: Run) -> None:
    answer = project.json("launch", "grpo_tiny", MODEL, "--queue", "--name", "next")
    assert answer["state"] == "queued"
    last = project.json("launch", "grpo_tiny", MODEL, "--after", "next", "--name", "last")
    assert last["state"] == "queued"
    assert [run["id"] for run in project.json("queue")["runs"]] == ["next", "last"]
    turn = "its turn: run busy (starting)"
    wait_for(lambda: project.json("show", "next")["waiting_for"] == turn)
    wait_for(lambda: "queued: run next (queued)" in project.run("runs").stdout)
    assert project.json("stop", "next")["reason"] == "stopped by user before it started"
    ended = project.run_program("watch", "last")
    assert ended.returncode == 1
    reason = project.json("show", "last")["reason"]
    assert reason == "not started: run 'next' was stopped by user before it started"


@pytest.mark.thorough
def test_a_run_that_waits_for_another_one_only_may_share_the_machine(
    project: Project, busy: Run
) -> None:
    day = Run(project.path / "runs" / "day")
    day.path.mkdir(parents=True)
    jsonl.write_json(day.manifest_file, {"id": "day", "kind": "sft"})
    write_state(day, RunState("finished", ended=time.time()))
    launch = ("launch", "grpo_tiny", MODEL, "--dry-run")
    shares = "machine: run 'busy' is"
    assert shares in " ".join(project.json(*launch, "--after", "day")["warnings"])
    assert shares not in " ".join(project.json(*launch, "--queue")["warnings"])


def test_a_run_beside_one_that_writes_its_folder_gets_a_folder_of_its_own(
    project: Project, busy: Run
) -> None:
    folder = {"checkpoint_dir": "checkpoints/grubrics-transfer/grpo-tiny"}
    change_manifest(busy, **folder)
    planned = project.run("launch", "grpo_tiny", MODEL, "--name", "second", "--dry-run")
    assert "checkpoints go to checkpoints/grubrics-transfer/second: " in planned.stdout
    assert "is being written by run 'busy'" in planned.stdout


def test_following_a_run_that_is_not_there_is_refused(project: Project, busy: Run) -> None:
    done = project.run("launch", "grpo_tiny", MODEL, "--after", "busi")
    assert (done.returncode, done.stderr) == (
        2,
        "error: run 'busi' does not exist; did you mean 'busy'?\n",
    )


def test_following_a_run_that_was_stopped_is_refused(project: Project, busy: Run) -> None:
    project.run("stop", "busy")
    done = project.run("launch", "grpo_tiny", MODEL, "--after", "busy")
    assert done.returncode == 2
    assert done.stderr.startswith("error: --after: run 'busy' was stopped by user ")


def test_an_empty_queue_says_so(project: Project) -> None:
    assert project.run("queue").stdout == "no queued runs\n"
    assert project.json("queue") == {"runs": [], "held": None}


def test_the_demo_trains_by_sft_and_then_by_grpo(project: Project) -> None:
    launched = [row["run"] for row in project.json("demo")["runs"]]
    try:
        rows = {row["id"]: row for row in project.json("runs")["runs"]}
        first, second = (rows[name] for name in launched)
        assert (first["kind"], second["kind"]) == ("sft", "grpo")
        assert second["state"] == "queued" and launched[0] in second["waiting_for"]
    finally:
        for name in reversed(launched):
            project.run("stop", name)
