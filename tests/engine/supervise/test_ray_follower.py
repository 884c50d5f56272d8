"""A run as a job: the real follower and supervisor, and a stand-in for the cluster's job server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread

import pytest

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.launch.launcher import start_supervisor
from engine.launch.resume import resume
from engine.run.processes import end, members
from engine.run.run import Run
from engine.run.state import RunState, observed_state, write_state
from engine.run.trust import vouch
from engine.supervise.follower import LogCopy, job_log
from engine.supervise.hosts import find_host
from engine.supervise.ray_jobs import (
    Job,
    carried,
    exit_code,
    follower_argv,
    new_submission_id,
    read_job,
)
from engine.supervise.stopping import stop_run
from tests.paths import ROOT
from tests.waiting import ended, wait_for

pytestmark = pytest.mark.waits

STANDIN = Path(__file__).with_name("standin.py")


class JobServer(ThreadingHTTPServer):
    """Starts what is submitted, as Ray does. While ``away`` it hangs up on everybody;
    ``without_agent`` so many submissions come before the cluster has quite started."""

    def __init__(self, logs: Path) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.logs = logs
        self.away = False
        self.asked_while_away = 0
        self.without_agent = 0
        self.runtime_envs: list[object] = []
        self.jobs: dict[str, subprocess.Popen[bytes]] = {}
        self.answering = Lock()
        self.stopped: set[str] = set()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def submit(self, submission_id: str, entrypoint: str) -> None:
        with (self.logs / submission_id).open("wb") as log:
            self.jobs[submission_id] = subprocess.Popen(
                entrypoint, shell=True, start_new_session=True, stdout=log, stderr=log
            )

    def status(self, submission_id: str) -> dict[str, object]:
        code = self.jobs[submission_id].poll()
        status = "RUNNING" if code is None else "FAILED" if code else "SUCCEEDED"
        if code is not None and submission_id in self.stopped:
            status = "STOPPED"
        logs = (self.logs / submission_id).read_text()
        return {"status": status, "message": "", "driver_exit_code": code, "logs": logs}

    def stop(self, submission_id: str) -> None:
        if self.jobs[submission_id].poll() is None:
            self.stopped.add(submission_id)
            os.killpg(self.jobs[submission_id].pid, signal.SIGTERM)

    def forget(self) -> None:
        """Lose all jobs, and end them: nobody is told how they ended."""
        with self.answering:
            forgotten, self.jobs = self.jobs, {}
        end_jobs(forgotten)


def end_jobs(jobs: Mapping[str, subprocess.Popen[bytes]]) -> None:
    for job in jobs.values():
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()


class Answer(BaseHTTPRequestHandler):
    server: JobServer

    def do_GET(self) -> None:
        name = self.path.split("/")[3]
        if self._reachable():
            with self.server.answering:
                known = name in self.server.jobs
                answer = self.server.status(name) if known else {}
            self._say(200 if known else 404, answer)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self._reachable():
            return
        if self.path.endswith("/stop"):
            self.server.stop(self.path.split("/")[3])
        elif self.server.without_agent:
            self.server.without_agent -= 1
            self._say(500, "No available agent to submit job, please try again later.")
            return
        else:
            asked = json.loads(body)
            self.server.runtime_envs.append(asked["runtime_env"])
            self.server.submit(asked["submission_id"], asked["entrypoint"])
        self._say(200, {"stopped": True})

    def _reachable(self) -> bool:
        away = self.server.away
        self.server.asked_while_away += away
        return not away

    def _say(self, status: int, answer: object) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobServer]:
    server = JobServer(tmp_path_factory.mktemp("logs"))
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
    end_jobs(server.jobs)


Start = Callable[..., Run]


@pytest.fixture
def start(tmp_path: Path, cluster: JobServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    run = Run(tmp_path / "runs" / "run")

    def make(*arguments: str, steps: int = 3) -> Run:
        argv = follower_argv(
            cluster.address, [sys.executable, str(STANDIN), str(steps), *arguments]
        )
        run.attempt(1).path.mkdir(parents=True)
        manifest = {
            "v": 1,
            "id": run.id,
            "kind": "grpo",
            "cwd": str(tmp_path),
            "created": time.time(),
            "checkpoint_dir": "checkpoints",
            "ray": cluster.address,
            "total_steps": steps,
            "attempts": [{"number": 1, "argv": argv}],
            # The job ends when the cluster gets to it, which is no reason for a harder signal.
            "config": {"supervision.interrupt_patience_s": {"value": 120.0}},
        }
        jsonl.write_json(run.manifest_file, manifest)
        vouch(run)
        write_state(run, RunState("starting"))
        start_supervisor(run)
        return run

    yield make
    end(members(run), patience_s=0.0)


def running(run: Run, step: int = 1) -> None:
    wait_for(lambda: (observed_state(run).step or 0) >= step)


def console(run: Run) -> str:
    return run.attempt(1).console.read_text()


def test_a_job_that_does_all_steps_is_a_finished_run(start: Start) -> None:
    run = start()
    assert (ended(run).state, observed_state(run).step) == ("finished", 3)
    assert job_log(run.attempt(1).path).read_text() in console(run)


def test_a_failed_job_fails_the_run_with_the_error_of_the_job(start: Start) -> None:
    run = start("--fail-at=2")
    state = ended(run)
    assert (state.state, state.exit_code) == ("failed", 1)
    assert "RuntimeError: the loss went for a walk" in (state.reason or "")


def test_a_stop_stops_the_job_and_signals_only_the_follower(
    start: Start, cluster: JobServer
) -> None:
    run = start("--sleep=0.2", steps=500)
    running(run)
    follower = observed_state(run).trainer
    assert follower is not None
    done = stop_run(run)
    assert done.ended and (done.reason or "").startswith("stopped by user at step")
    assert [job.poll() is not None for job in cluster.jobs.values()] == [True]
    signals = [record for record in jsonl.read(run.events) if record["event"] == "signal"]
    assert [record["pids"] for record in signals] == [[follower.pid]]


def test_the_processes_of_the_job_are_the_clusters(start: Start, cluster: JobServer) -> None:
    run = start("--sleep=0.2", steps=500)
    running(run)
    (job,) = cluster.jobs.values()
    follower = observed_state(run).trainer
    claimed = {process.pid for process in members(run)}
    assert follower is not None and follower.pid in claimed
    assert job.pid not in claimed


def test_a_cluster_that_does_not_answer_for_a_while_fails_nothing(
    start: Start, cluster: JobServer
) -> None:
    run = start("--hang-at=2", steps=8)
    running(run)
    cluster.away = True
    wait_for(lambda: cluster.asked_while_away > 0)
    cluster.away = False
    (run.attempt(1).path / "go").touch()
    assert ended(run).state == "finished"
    assert "no answer from" in console(run) and "answers again after" in console(run)
    steps = [line for line in console(run).splitlines() if line.startswith("step:")]
    assert steps == [f"step:{n} - critic/score/mean:0.5" for n in range(1, 9)]


@pytest.mark.thorough
def test_a_cluster_that_has_just_started_is_polled_again(start: Start, cluster: JobServer) -> None:
    cluster.without_agent = 2
    run = start()
    assert ended(run).state == "finished"
    assert '("No available agent to submit job, please try again later."); asking again' in console(
        run
    )


def test_a_cluster_that_forgot_the_job_fails_the_run(start: Start, cluster: JobServer) -> None:
    run = start("--sleep=0.2", steps=500)
    running(run)
    cluster.forget()
    state = ended(run)
    assert state.state == "failed"
    assert "gone on the cluster, not by this run" in (state.reason or "")


@pytest.mark.thorough
def test_a_job_stopped_by_somebody_else_is_not_a_stop_of_ours(
    start: Start, cluster: JobServer
) -> None:
    run = start("--sleep=0.2", steps=500)
    running(run)
    for name in cluster.jobs:
        cluster.stop(name)
    state = ended(run)
    assert state.state == "failed"
    assert "stopped on the cluster, not by this run" in (state.reason or "")


def test_a_job_without_supervisor_blocks_a_resume_until_it_is_stopped(
    start: Start, cluster: JobServer
) -> None:
    run = start("--sleep=0.2", steps=500)
    running(run)
    state = observed_state(run)
    assert state.trainer is not None and state.supervisor is not None
    for process in (state.supervisor, state.trainer):
        os.kill(process.pid, signal.SIGKILL)
    wait_for(lambda: observed_state(run).state == "lost" and not members(run))
    with pytest.raises(UsageError, match=r"job grubrics-run-attempt_1-\w+ on http.* is RUNNING"):
        resume(run)
    assert stop_run(run).ended
    assert find_host(run).left() is None
    assert [job.poll() is not None for job in cluster.jobs.values()] == [True]


def test_a_cluster_that_does_not_see_the_run_says_so(
    start: Start, cluster: JobServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = cluster.submit

    def elsewhere(submission_id: str, entrypoint: str) -> None:
        submit(submission_id, entrypoint.replace("/attempt_1", "/not-mounted"))

    monkeypatch.setattr(cluster, "submit", elsewhere)
    state = ended(start())
    assert state.state == "failed"
    assert "must be on a file system that every node of the cluster mounts" in (state.reason or "")


def test_nothing_secret_goes_to_the_job_server(
    start: Start, cluster: JobServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    run = start()
    ended(run)
    job = read_job(run.attempt(1).path)
    assert job is not None and job.environment["GRUBRICS_RUN_ID"] == "run"
    assert "sk-secret" not in str(cluster.runtime_envs) + str(job)


def test_only_named_variables_are_carried() -> None:
    given = {"GRUBRICS_RUN_ID": "r", "WANDB_MODE": "offline", "AZURE_API_KEY": "k", "HOME": "/h"}
    assert carried(given) == {
        "GRUBRICS_ON_CLUSTER": "1",
        "GRUBRICS_RUN_ID": "r",
        "WANDB_MODE": "offline",
    }


def test_two_submissions_never_share_an_id() -> None:
    names = {new_submission_id("a.b", "attempt_1") for _ in range(50)}
    assert len(names) == 50
    assert all(name.startswith("grubrics-a-b-attempt_1-") for name in names)


@pytest.mark.parametrize(
    ("job", "code"),
    [
        (Job("SUCCEEDED", "", 0), 0),
        (Job("FAILED", "", 3), 3),
        (Job("FAILED", "", -9), 137),
        (Job("FAILED", "no node", None), 1),
    ],
)
def test_the_exit_code_is_the_jobs(job: Job, code: int) -> None:
    assert exit_code(job) == code
    assert exit_code(replace(job, message="other words")) == code


def test_each_byte_of_a_growing_log_is_copied_once(tmp_path: Path) -> None:
    log, console = tmp_path / "job.log", tmp_path / "console.log"
    with console.open("wb") as out:
        copier = LogCopy(log, out.fileno())
        copier.copy()
        for piece in (b"one\ntw", b"", b"o\n\xff\r50%", b"\r100%\n"):
            with log.open("ab") as growing:
                growing.write(piece)
            copier.copy()
            copier.copy()
    assert console.read_bytes() == log.read_bytes() == b"one\ntwo\n\xff\r50%\r100%\n"


def test_a_full_disk_delays_the_copy_and_loses_nothing(tmp_path: Path) -> None:
    log, console = tmp_path / "job.log", tmp_path / "console.log"
    log.write_bytes(b"a line\n")
    full = os.open("/dev/full", os.O_WRONLY)
    copier = LogCopy(log, full)
    copier.copy()
    assert copier.offset == 0
    with console.open("wb") as out:
        os.dup2(out.fileno(), full)
        copier.copy()
    os.close(full)
    assert console.read_bytes() == b"a line\n"
