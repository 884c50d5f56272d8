"""``run --slurm``: a job of Slurm as a run. The commands of Slurm are stand-ins that execute it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from engine.run.processes import send
from engine.run.run import Run
from engine.run.state import observed_state, recorded_state
from engine.supervise import slurm_jobs
from engine.supervise.slurm_jobs import SlurmFollower, SlurmJob, read_job
from tests.e2e.project import Project
from tests.waiting import ended, is_over, wait_for

pytestmark = pytest.mark.waits

STANDIN = Path(__file__).with_name("slurm_standin.py")
LOOP = "for i in $(seq 1 {0}); do echo step=$i loss=0.$((90 - i)); sleep 0.1; done"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The records of the stand-in, whose commands are first on the PATH."""
    records, programs = tmp_path / "slurm", tmp_path / "bin"
    records.mkdir()
    programs.mkdir()
    STANDIN.chmod(0o755)
    for name in ("sbatch", "squeue", "sacct", "scancel"):
        (programs / name).symlink_to(STANDIN)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("STANDIN_SLURM", str(records))
    return records


@pytest.fixture
def project(tmp_path: Path, cluster: Path) -> Iterator[Project]:
    made = Project(tmp_path)
    yield made
    for folder in (tmp_path / "runs").glob("*"):
        made.run("stop", folder.name)


def submitted(project: Project, name: str, script: str) -> Run:
    done = project.run(
        "run", "--name", name, "--slurm", "partition=gpu", "--json", "--", "sh", "-c", script
    )
    assert done.returncode == 0, done.stderr
    return Run(project.path / "runs" / name)


def job_of(cluster: Path) -> psutil.Process:
    wait_for(lambda: any(path.read_text() for path in cluster.glob("*.pid")))
    return psutil.Process(int(next(cluster.glob("*.pid")).read_text()))


def test_a_job_is_a_run_with_its_steps_and_its_id(project: Project) -> None:
    run = submitted(project, "job", LOOP.format(3))
    assert ended(run).state == "finished"
    job = read_job(run.attempt(1).path)
    assert job is not None
    assert (job.id, job.ended, job.options) == ("17", "COMPLETED", ("partition=gpu",))
    assert project.run("metrics", "job", "loss").stdout.split()[-2:] == ["3", "0.87"]


def test_a_pending_job_is_queued_for_the_reason_of_slurm(project: Project, cluster: Path) -> None:
    (cluster / "hold").touch()
    run = submitted(project, "waits", LOOP.format(2))
    wait_for(lambda: observed_state(run).waiting_for == "Slurm job 17: pending (Resources)")
    assert observed_state(run).state == "queued"
    (cluster / "hold").unlink()
    assert ended(run).state == "finished"


def test_a_requeued_job_is_queued_and_runs_again(project: Project, cluster: Path) -> None:
    run, state = submitted(project, "again", LOOP.format(1000)), cluster / "17.state"
    wait_for(lambda: (observed_state(run).step or 0) >= 1)
    state.write_text("PENDING|0:0")
    wait_for(lambda: observed_state(run).waiting_for == "Slurm job 17: pending (Resources)")
    state.write_text("RUNNING|0:0")
    wait_for(lambda: observed_state(run).state == "running")


def test_the_exit_code_of_the_job_is_that_of_the_run(project: Project) -> None:
    run = submitted(project, "fails", "echo step=1 loss=2; exit 3")
    assert ended(run).reason == "exit code 3 at step 1"


def test_a_stop_cancels_the_job(project: Project, cluster: Path) -> None:
    run = submitted(project, "stopped", LOOP.format(1000))
    wait_for(lambda: (observed_state(run).step or 0) >= 2)
    job = job_of(cluster)
    stopped = project.json("stop", "stopped")
    assert stopped["reason"].startswith("stopped by user at step ")
    assert is_over(job)


@pytest.mark.thorough
def test_a_stop_of_a_pending_job_cancels_it(project: Project, cluster: Path) -> None:
    (cluster / "hold").touch()
    run = submitted(project, "pending", LOOP.format(2))
    wait_for(lambda: (observed_state(run).waiting_for or "").startswith("Slurm job 17"))
    assert project.json("stop", "pending")["reason"] == "stopped by user before the first step"
    assert (cluster / "17.state").read_text().startswith("CANCELLED")


def test_what_slurm_refuses_is_the_reason(project: Project) -> None:
    done = project.run(
        "run", "--name", "no", "--slurm", "partition=nosuch", "--wait", "--json", "--", "true"
    )
    answer: Any = json.loads(done.stdout)
    assert (answer["state"], "invalid partition specified: nosuch" in answer["reason"]) == (
        "failed",
        True,
    )


@pytest.mark.thorough
def test_a_job_that_somebody_else_cancels_has_failed(project: Project, cluster: Path) -> None:
    run = submitted(project, "cancelled", LOOP.format(1000))
    wait_for(lambda: (observed_state(run).step or 0) >= 1)
    (cluster / "17.state").write_text("CANCELLED by 0|0:15")
    job_of(cluster).kill()
    state = ended(run)
    assert state.state == "failed"
    assert (state.reason or "").startswith("Slurm job 17: cancelled, not by this run at step ")


def test_a_killed_follower_leaves_no_job_and_a_lost_run(project: Project, cluster: Path) -> None:
    run = submitted(project, "orphaned", LOOP.format(1000))
    wait_for(lambda: (observed_state(run).step or 0) >= 1)
    state = recorded_state(run)
    assert state is not None and state.trainer is not None
    job = job_of(cluster)
    send(state.trainer, signal.SIGKILL)
    assert ended(run).state == "lost"
    assert is_over(job)


@pytest.mark.thorough
def test_a_killed_supervisor_leaves_a_job_that_stop_cancels(
    project: Project, cluster: Path
) -> None:
    run = submitted(project, "alone", LOOP.format(1000))
    wait_for(lambda: (observed_state(run).step or 0) >= 1)
    state = recorded_state(run)
    assert state is not None and state.supervisor is not None
    job = job_of(cluster)
    send(state.supervisor, signal.SIGKILL)
    wait_for(lambda: observed_state(run).state == "lost")
    assert project.json("stop", "alone")["state"] == "lost"
    assert is_over(job)


def test_a_job_that_slurm_no_longer_knows_is_lost(
    tmp_path: Path, cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_jobs, "UNKNOWN_S", 0.2)
    is_running = f"grep -q RUNNING {cluster}/17.state"
    script = f"until {is_running}; do sleep 0.05; done; rm {cluster}/*; kill -9 $PPID"
    SlurmFollower(tmp_path, SlurmJob("x", ("partition=gpu",)), ["sh", "-c", script]).follow()
    report = json.loads((tmp_path / "follower.json").read_text())
    assert (report["outcome"], report["reason"]) == (
        "unknown",
        "Slurm job 17: Slurm no longer knows how it ended",
    )


def test_a_secret_of_the_command_is_in_no_file_of_the_run(project: Project) -> None:
    secret = "hunter2-" + "x" * 12
    command = ("sh", "-c", "echo ${#2}", "sh", "--api-key", secret)
    options = ("--name", "keyed", "--slurm", "time=1:00", "--wait", "--json")
    project.run("run", *options, "--", *command)
    run = Run(project.path / "runs" / "keyed")
    assert "20\n" in run.attempt(1).console.read_text()
    kept = [path for path in run.path.rglob("*") if path.is_file()]
    assert not [path.name for path in kept if secret.encode() in path.read_bytes()]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--slurm", "output=x"), "error: --slurm output: a run sets this option itself"),
        (("--slurm", "-p gpu"), "error: --slurm '-p gpu': expected an option of sbatch"),
        (("--slurm", "time=1", "--gpus", "1"), "error: --gpus is for this machine."),
        (("--slurm", "time=1", "--queue"), "error: --queue is for this machine;"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    project: Project, options: tuple[str, ...], message: str
) -> None:
    done = project.run("run", *options, "--", "true")
    assert (done.returncode, done.stderr[: len(message)]) == (2, message)


def test_a_machine_without_slurm_is_named(tmp_path: Path) -> None:
    done = Project(tmp_path).run("run", "--slurm", "time=1", "--", "true")
    assert done.returncode == 2 and "sbatch is not on the PATH" in done.stderr


def test_a_controller_that_does_not_answer_is_asked_again(
    tmp_path: Path, cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, read = [], slurm_jobs.read_state

    def failing(job_id: str) -> slurm_jobs.JobState | None:
        calls.append(time.monotonic())
        if len(calls) < 3:
            raise slurm_jobs.SlurmError("Unable to contact slurm controller")
        return read(job_id)

    monkeypatch.setattr(slurm_jobs, "read_state", failing)
    assert SlurmFollower(tmp_path, SlurmJob("x", ()), ["true"]).follow() == 0
    assert len(calls) >= 3
