"""Which runs of an ablation are launched, and which are not."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.launch.resume import Resumed
from engine.measure.ablations import runner
from engine.measure.ablations.plan import MOST_TRIES, AblationPlan, Arm, Job
from engine.measure.ablations.runner import (
    LOCK,
    given_up,
    is_running,
    locked,
    outcome_of,
    run_plan,
    start_runner,
)
from engine.run.host.environment import fingerprint
from engine.run.processes import identify, members
from engine.run.run import Run, archive_root
from engine.run.state import RunState, write_state
from tests.waiting import wait_for

pytestmark = pytest.mark.long

PLAN = AblationPlan("a", "c", "grpo", (Arm("base", (), {}), Arm("x", (), {})), (1, 2, 3), 20)
OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
    "capacity of 79.15 GiB of which 1.19 GiB is free.\n"
)


def job(arm: str, seed: int) -> Job:
    return next(job for job in PLAN.jobs() if (job.arm, job.seed) == (arm, seed))


def make_run(root: Path, of: Job, state: RunState, console: str = "") -> Run:
    run = Run(root / of.run)
    attempt = run.attempt(1)
    attempt.path.mkdir(parents=True)
    attempt.console.write_text(console)
    jsonl.write_json(run.manifest_file, {"v": 1, "id": run.id, "kind": "grpo", "config": {}})
    write_state(run, state)
    return run


FAILED = RunState("failed", "exit code 1 at step 2 of 20", exit_code=1, started=1.0, ended=2.0)
FINISHED = RunState("finished", started=1.0, ended=2.0)


@pytest.mark.parametrize(
    "state",
    [
        RunState("lost", "no heartbeat"),
        RunState("failed", "killed by SIGKILL at step 3", signal="SIGKILL"),
        RunState("finished", "stopped by user at step 3 of 20"),
        RunState("finished", "stopped by SIGTERM to its supervisor at step 3 of 20"),
    ],
    ids=lambda state: state.reason,
)
def test_a_run_that_was_interrupted_is_not_over(tmp_path: Path, state: RunState) -> None:
    make_run(tmp_path, job("x", 1), state)
    assert outcome_of(job("x", 1), tmp_path) is None


def test_a_run_that_the_guard_stopped_has_failed(tmp_path: Path) -> None:
    make_run(tmp_path, job("x", 1), RunState("finished", "stopped by guard at step 3 of 20"))
    outcome = outcome_of(job("x", 1), tmp_path)
    assert outcome is not None
    assert not outcome.finished


def test_an_arm_whose_first_two_seeds_fail_alike_is_given_up_with_the_cause(
    tmp_path: Path,
) -> None:
    for seed in (1, 2):
        make_run(tmp_path, job("base", seed), FINISHED)
        make_run(tmp_path, job("x", seed), FAILED, OUT_OF_MEMORY)
    [(arm, reason)] = given_up(PLAN, tmp_path).items()
    assert arm == "x"
    assert "memory" in reason
    assert given_up(PLAN, tmp_path, stop=False) == {}


def test_an_arm_that_failed_once_gets_its_other_seeds(tmp_path: Path) -> None:
    make_run(tmp_path, job("x", 1), FAILED, OUT_OF_MEMORY)
    make_run(tmp_path, job("x", 2), FINISHED)
    assert given_up(PLAN, tmp_path) == {}


def test_an_arm_that_failed_for_two_reasons_gets_its_other_seeds(tmp_path: Path) -> None:
    make_run(tmp_path, job("x", 1), FAILED, OUT_OF_MEMORY)
    make_run(tmp_path, job("x", 2), FAILED, "OSError: [Errno 28] No space left on device\n")
    assert given_up(PLAN, tmp_path) == {}


def test_when_a_user_stops_a_run_the_ablation_pauses(tmp_path: Path) -> None:
    make_run(tmp_path, job("base", 1), RunState("running", supervisor=identify(os.getpid())))
    reports: list[str] = []

    def stop_the_run(_: float) -> None:
        write_state(
            Run(tmp_path / job("base", 1).run),
            RunState("finished", "stopped by user at step 3 of 20", ended=2.0),
        )

    run_plan(PLAN, tmp_path, sleep=stop_the_run, report=reports.append)
    assert reports == [f"{job('base', 1).run}: stopped by a user; the ablation is paused"]


def test_an_archived_run_is_not_repeated(tmp_path: Path) -> None:
    make_run(archive_root(tmp_path), job("x", 1), FINISHED)
    outcome = outcome_of(job("x", 1), tmp_path)
    assert outcome is not None and outcome.finished


def test_an_archived_run_that_did_not_end_is_to_be_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    PLAN.folder.mkdir(parents=True)
    make_run(archive_root(tmp_path), job("base", 1), RunState("lost", "no heartbeat", ended=2.0))
    reports: list[str] = []
    alone = replace(PLAN, arms=PLAN.arms[:1], seeds=(1,))
    run_plan(alone, tmp_path, sleep=lambda _: None, report=reports.append)
    assert f"grubrics-tui archive --undo {job('base', 1).run}" in reports[-1]


def test_a_run_that_is_killed_at_every_start_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = RunState("failed", "killed by SIGKILL at step 12 of 20", signal="SIGKILL", ended=2.0)
    alone = replace(PLAN, arms=PLAN.arms[:1], seeds=(1,))
    monkeypatch.chdir(tmp_path)
    PLAN.folder.mkdir(parents=True)
    make_run(tmp_path, job("base", 1), killed)
    monkeypatch.setattr(runner, "resume", lambda run: Resumed(10, 2, ()))
    reports: list[str] = []
    run_plan(alone, tmp_path, sleep=lambda _: None, report=reports.append)
    assert len(reports) == MOST_TRIES + 1
    assert "without progress: killed by SIGKILL" in reports[-1]


def test_a_trainer_without_its_supervisor_is_ended_before_the_run_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = replace(PLAN, arms=PLAN.arms[:1], seeds=(1,))
    run = make_run(tmp_path, job("base", 1), RunState("lost", "no heartbeat", ended=2.0))
    marks = {"GRUBRICS_RUN_ID": run.id, "GRUBRICS_ATTEMPT_DIR": str(run.attempt(1).path)}
    trainer = subprocess.Popen(["sleep", "600"], env={**os.environ, **marks})
    wait_for(lambda: members(run))

    def resume(run: Run) -> Resumed:
        assert members(run) == []
        write_state(run, FINISHED)
        return Resumed(10, 2, ())

    monkeypatch.setattr(runner, "resume", resume)
    reports: list[str] = []
    run_plan(alone, tmp_path, sleep=lambda _: None, report=reports.append)
    assert reports == [f"{run.id}: resumed from step 10"]
    assert trainer.wait() == -signal.SIGTERM


def test_no_run_is_launched_after_the_data_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    PLAN.folder.mkdir(parents=True)
    data = tmp_path / "val.parquet"
    data.write_text("before")
    run = make_run(tmp_path, job("base", 1), FINISHED)
    facts = {data.name: fingerprint(data)}
    run.write_manifest(structs.replace(run.read_full_manifest(), cwd=str(tmp_path), data=facts))
    data.write_text("after")
    reports: list[str] = []
    run_plan(PLAN, tmp_path, report=reports.append)
    assert len(reports) == 5
    assert all("val.parquet has changed since run 'a-base-s1'" in line for line in reports)


def test_one_process_at_a_time_runs_an_ablation(tmp_path: Path) -> None:
    with locked(tmp_path):
        assert is_running(tmp_path)
        with pytest.raises(UsageError, match="another process"), locked(tmp_path):
            pass
    assert not is_running(tmp_path)


def test_a_reader_of_the_table_does_not_keep_the_runner_from_starting(tmp_path: Path) -> None:
    lock = tmp_path / LOCK
    lock.touch()
    reader = lock.open()
    fcntl.flock(reader, fcntl.LOCK_SH)
    threading.Timer(0.1, reader.close).start()
    with locked(tmp_path):
        assert is_running(tmp_path)


def test_a_runner_that_ends_at_once_is_an_error_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("torn")
    with pytest.raises(UsageError, match=r"not started: error: .*plan\.json: damaged or edited"):
        start_runner(tmp_path, tmp_path / "runs")
