"""GRPO as a job on a Ray cluster that was there before: launched, stopped, resumed to its end."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.base import jsonl
from engine.history.train_log import read_steps
from engine.runs.processes import members
from engine.runs.rundir import RunDir
from engine.runs.state import observed_state
from engine.supervise.ray_jobs import Cluster, job_log, read_job
from tests.e2e.project import Project
from tests.e2e.ray_cluster import RAY, TwoNodes, two_nodes
from tests.waiting import TRAINING_PATIENCE_S

pytestmark = pytest.mark.slow

STEPS = 10
SECRET = "sk-never-to-be-seen-in-a-dashboard"


@pytest.fixture(scope="module")
def cluster() -> Iterator[TwoNodes]:
    # Not below tmp_path: the path of a Unix socket may have 107 bytes.
    short = tempfile.TemporaryDirectory(prefix="gr", ignore_cleanup_errors=True)
    with short as directory, two_nodes(Path(directory)) as found:
        yield found


@pytest.fixture(scope="module")
def run(tiny_world: Project, trained_sft: dict[str, Any]) -> RunDir:
    assert trained_sft["state"] == "finished", trained_sft
    return RunDir(tiny_world.path / "runs" / "job")


@pytest.fixture(scope="module")
def stopped(tiny_world: Project, run: RunDir, cluster: TwoNodes) -> dict[str, Any]:
    """The run, launched on the cluster and stopped once it has a checkpoint."""
    done = tiny_world.run(
        "launch",
        "grpo_tiny",
        f"trainer.total_training_steps={STEPS}",
        "trainer.save_freq=2",
        "trainer.test_freq=-1",
        "trainer.val_before_train=false",
        "trainer.default_local_dir=checkpoints/job",
        "--name=job",
        "grubrics.exposed=true",
        f"--ray={cluster.address}",
        env={**cluster.env, "OPENAI_API_KEY": SECRET},
    )
    assert done.returncode == 0, done.stderr
    wait_for(run, lambda: last_step(run) >= 2)
    answer: dict[str, Any] = tiny_world.json("stop", "job")
    return answer


def test_a_cluster_that_other_hosts_reach_is_refused_unless_that_is_meant(
    tiny_world: Project, trained_sft: dict[str, Any], cluster: TwoNodes
) -> None:
    launch = ["launch", "grpo_tiny", f"--ray={cluster.address}", "--name=unasked"]
    done = tiny_world.run(*launch, env=dict(cluster.env))
    assert done.returncode == 2
    assert "grubrics.exposed=true" in done.stderr
    assert not (tiny_world.path / "runs" / "unasked").exists()


def test_a_stop_ends_the_job_and_leaves_the_cluster_alone(
    run: RunDir, stopped: dict[str, Any], cluster: TwoNodes
) -> None:
    assert stopped["ended"] and stopped["reason"].startswith("stopped by user at step"), stopped
    assert job_status(run, 1) == "STOPPED"
    wait_for(run, lambda: not marked_pids(run))
    assert members(run) == []
    assert [process.poll() for process in cluster.processes] == [None, None]
    assert len(Cluster(cluster.address).nodes()) == 2


def test_a_stop_signals_the_follower_only(run: RunDir, stopped: dict[str, Any]) -> None:
    trainer = observed_state(run).trainer
    assert trainer is not None
    events = [record for record in jsonl.read(run.events) if record["event"] == "signal"]
    assert [record["pids"] for record in events] == [[trainer.pid]]


def test_no_secret_is_sent_along(run: RunDir, stopped: dict[str, Any], cluster: TwoNodes) -> None:
    job = read_job(run.attempt(1).path)
    assert job is not None
    known = subprocess.run(
        [RAY, "job", "list", f"--address={cluster.address}"], capture_output=True, text=True
    )
    assert job.submission_id in known.stdout, known.stderr
    files = [path.read_text(errors="replace") for path in run.path.rglob("*.json*")]
    assert SECRET not in known.stdout + "".join(files)


def test_it_resumes_on_the_cluster_as_one_history(
    tiny_world: Project, run: RunDir, stopped: dict[str, Any]
) -> None:
    answer = tiny_world.json("resume", "job", "--wait")
    assert answer["state"] == "finished", observed_state(run)
    assert answer["from_step"] >= 2
    steps = [step.step for step in read_steps(run.train_log) if step.step >= 1]
    assert sorted(set(steps)) == list(range(1, STEPS + 1))
    assert job_status(run, 2) == "SUCCEEDED"


def test_the_console_holds_every_line_of_the_job_once(run: RunDir, stopped: Any) -> None:
    for attempt in run.attempts():
        console = attempt.console.read_bytes().split(b"\n")
        job = job_log(attempt.path).read_bytes().split(b"\n")
        followers_own = (b"Ray job grubrics-", b"asked http://")
        assert [line for line in console if not line.startswith(followers_own)] == job


def job_status(run: RunDir, attempt: int) -> str | None:
    job = read_job(run.attempt(attempt).path)
    assert job is not None
    result = job.cluster.job(job.submission_id)
    return result.status if result else None


def marked_pids(run: RunDir) -> list[str]:
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


def last_step(run: RunDir) -> int:
    return max((step.step for step in read_steps(run.train_log)), default=0)


def wait_for(
    run: RunDir, condition: Callable[[], bool], seconds: float = TRAINING_PATIENCE_S
) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        state = observed_state(run)
        assert time.monotonic() < deadline, (state, marked_pids(run))
        assert state.state not in ("failed", "lost"), state
        time.sleep(0.1)
