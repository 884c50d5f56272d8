"""GRPO as a job on a Ray cluster that was there before: to its end, stopped, resumed."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engine.base import jsonl
from engine.run.history.train_log import read_steps
from engine.run.processes import members
from engine.run.run import Run
from engine.run.state import observed_state
from engine.supervise.follower import job_log
from engine.supervise.ray_jobs import Cluster, read_job
from tests.e2e.project import GROUPS_OF_4, Project
from tests.e2e.ray_cluster import RAY, TwoNodes, two_nodes
from tests.waiting import TRAINING_PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

STEPS = 2
"""Each worker of a cluster imports verl by itself: a start takes four times the CPU time of a start
on a private Ray, so that only one run here gets as far as its steps."""
SECRET = "sk-never-to-be-seen-in-a-dashboard"


@pytest.fixture(scope="module")
def cluster() -> Iterator[TwoNodes]:
    # Not below tmp_path: the path of a Unix socket may have 107 bytes.
    short = tempfile.TemporaryDirectory(prefix="gr", ignore_cleanup_errors=True)
    with short as directory, two_nodes(Path(directory)) as found:
        yield found


@pytest.fixture(scope="module")
def project(tiny_world: Project, trained_sft: dict[str, Any]) -> Project:
    assert trained_sft["state"] == "finished", trained_sft
    return tiny_world


def launched(project: Project, cluster: TwoNodes, name: str, steps: int) -> Run:
    done = project.run(
        "launch",
        "grpo_tiny",
        f"trainer.total_training_steps={steps}",
        "trainer.save_freq=2",
        "trainer.test_freq=-1",
        "trainer.val_before_train=false",
        f"trainer.default_local_dir=checkpoints/{name}",
        *GROUPS_OF_4,
        f"--name={name}",
        "grubrics.exposed=true",
        f"--ray={cluster.address}",
        env={**cluster.env, "OPENAI_API_KEY": SECRET},
    )
    assert done.returncode == 0, done.stderr
    return Run(project.path / "runs" / name)


@pytest.fixture(scope="module")
def job(project: Project, cluster: TwoNodes) -> Run:
    """A run that reached its end on the cluster."""
    run = launched(project, cluster, "job", STEPS)
    wait_for(run, lambda: observed_state(run).has_ended)
    return run


@dataclass(frozen=True)
class Stopped:
    run: Run
    answer: dict[str, Any]


@pytest.fixture(scope="module")
def stopped(project: Project, cluster: TwoNodes) -> Stopped:
    """A run that was stopped when the cluster had started workers for it."""
    run = launched(project, cluster, "stopped", STEPS)
    wait_for(run, lambda: any(command.startswith("ray::") for command in marked_pids(run)))
    return Stopped(run, project.json("stop", run.id))


def test_a_cluster_that_other_hosts_reach_is_refused_unless_that_is_meant(
    project: Project, cluster: TwoNodes
) -> None:
    launch = ["launch", "grpo_tiny", f"--ray={cluster.address}", "--name=unasked"]
    done = project.run(*launch, env=dict(cluster.env))
    assert done.returncode == 2
    assert "grubrics.exposed=true" in done.stderr
    assert not (project.path / "runs" / "unasked").exists()


def test_a_job_trains_on_the_cluster_to_its_last_step(job: Run) -> None:
    state = observed_state(job)
    assert (state.state, state.step) == ("finished", STEPS), state
    assert [step.step for step in read_steps(job.train_log)] == list(range(1, STEPS + 1))
    assert job_status(job, 1) == "SUCCEEDED"


def test_no_secret_is_sent_along(job: Run, cluster: TwoNodes) -> None:
    record = read_job(job.attempt(1).path)
    assert record is not None
    known = subprocess.run(
        [RAY, "job", "list", f"--address={cluster.address}"], capture_output=True, text=True
    )
    assert record.submission_id in known.stdout, known.stderr
    files = [path.read_text(errors="replace") for path in job.path.rglob("*.json*")]
    assert SECRET not in known.stdout + "".join(files)


def test_the_console_holds_every_line_of_the_job_once(job: Run) -> None:
    assert_every_line_once(job)


def assert_every_line_once(run: Run) -> None:
    for attempt in run.attempts():
        console = attempt.console.read_bytes().split(b"\n")
        printed = job_log(attempt.path).read_bytes().split(b"\n")
        followers_own = (b"Ray job grubrics-", b"asked http://")
        assert [line for line in console if not line.startswith(followers_own)] == printed


def test_a_stop_ends_the_job_and_leaves_the_cluster_alone(
    stopped: Stopped, cluster: TwoNodes
) -> None:
    assert stopped.answer["ended"]
    assert stopped.answer["reason"] == "stopped by user before the first step"
    assert_stopped(stopped.run, cluster)


def assert_stopped(run: Run, cluster: TwoNodes) -> None:
    assert job_status(run, 1) == "STOPPED"
    wait_for(run, lambda: not marked_pids(run))
    assert members(run) == []
    assert [process.poll() for process in cluster.processes] == [None, None]
    assert len(Cluster(cluster.address).nodes()) == 2


def test_a_stop_signals_the_follower_only(stopped: Stopped) -> None:
    trainer = observed_state(stopped.run).trainer
    assert trainer is not None
    events = [record for record in jsonl.read(stopped.run.events) if record["event"] == "signal"]
    assert [record["pids"] for record in events] == [[trainer.pid]]


@pytest.mark.thorough
def test_a_job_that_was_stopped_resumes_on_the_cluster_as_one_history(
    project: Project, cluster: TwoNodes
) -> None:
    """``test_training.py`` resumes runs of a private Ray."""
    steps = 10
    run = launched(project, cluster, "resumed", steps)
    wait_for(run, lambda: last_step(run) >= 2)
    assert project.json("stop", run.id)["reason"].startswith("stopped by user at step")
    assert_stopped(run, cluster)
    answer = project.json("resume", run.id, "--wait")
    assert answer["state"] == "finished", observed_state(run)
    assert answer["from_step"] >= 2
    logged = [step.step for step in read_steps(run.train_log) if step.step >= 1]
    assert sorted(set(logged)) == list(range(1, steps + 1))
    assert job_status(run, 2) == "SUCCEEDED"
    assert_every_line_once(run)


def job_status(run: Run, attempt: int) -> str | None:
    job = read_job(run.attempt(attempt).path)
    assert job is not None
    result = job.cluster.job(job.submission_id)
    return result.status if result else None


def marked_pids(run: Run) -> list[str]:
    """Whatever carries the run's mark, on whosever behalf it runs."""
    mark = f"GRUBRICS_ATTEMPT_DIR={run.path.resolve()}/".encode()
    result = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes():
                result.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return result


def last_step(run: Run) -> int:
    return max((step.step for step in read_steps(run.train_log)), default=0)


def wait_for(run: Run, condition: Callable[[], bool], seconds: float = TRAINING_PATIENCE_S) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        state = observed_state(run)
        assert time.monotonic() < deadline, (state, marked_pids(run))
        assert state.state not in ("failed", "lost"), state
        time.sleep(0.1)
