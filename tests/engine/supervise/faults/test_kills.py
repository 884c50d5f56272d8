"""Somebody kills a process of a run."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.launch.launcher import start_supervisor
from engine.launch.resume import resume
from engine.run.processes import alive, identify, members, send
from engine.run.run import Run
from engine.run.state import RunState, observed_state, recorded_state, write_state
from engine.supervise.reaper import find_orphans, reap
from engine.supervise.stopping import stop_run
from tests.engine.supervise.faults.stage import (
    STANDIN,
    Stage,
    events,
    exists,
    in_state,
    logged,
    supervisor_of,
    trainer_of,
)
from tests.paths import ROOT
from tests.waiting import ended, wait_for

pytestmark = pytest.mark.waits


@pytest.fixture
def bystander() -> Iterator[int]:
    """Somebody else's process with the trainer's very command line."""
    code = "import time; time.sleep(300)"
    process = subprocess.Popen([sys.executable, "-c", code, str(STANDIN), "--ignore-signals"])
    yield process.pid
    process.kill()
    process.wait()


def lose(run: Run) -> None:
    send(supervisor_of(run), signal.SIGKILL)
    in_state(run, "lost")


def family(run: Run) -> list[int]:
    pids = run.attempt(1).path / "family"
    wait_for(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    return [int(pid) for pid in pids.read_text().split()]


def test_the_trainer_keeps_running_without_its_supervisor_and_the_run_is_lost(stage: Stage) -> None:
    run = stage.long()
    lose(run)
    assert "supervisor died; last heartbeat at 2" in (observed_state(run).reason or "")
    metrics = run.attempt(1).metrics
    size = metrics.stat().st_size
    wait_for(lambda: metrics.stat().st_size > size)
    assert alive(trainer_of(run))


def test_a_lost_run_is_not_resumed_while_its_trainer_runs(stage: Stage) -> None:
    run = stage.long()
    lose(run)
    with pytest.raises(UsageError, match=r"still has processes \(\[\d+\]\)"):
        resume(run)


def test_stopping_a_lost_run_completes_its_history_and_says_who_noticed(stage: Stage) -> None:
    run = stage.long()
    lose(run)
    written = len(logged(run))
    metrics = run.attempt(1).metrics
    wait_for(lambda: len(list(jsonl.read(metrics))) > written + 2)
    assert stop_run(run).ended
    steps = [record["step"] for record in jsonl.read(metrics)]
    assert logged(run) == steps
    state = recorded_state(run)
    assert state is not None
    assert (state.state, state.step) == ("lost", steps[-1])
    assert "; noticed by stop at 2" in (state.reason or "")
    assert [event["noticed_by"] for event in events(run, "lost")] == ["stop"]


def test_reaping_a_lost_run_ends_its_processes_and_closes_its_books_once(stage: Stage) -> None:
    run = stage.long()
    lose(run)
    trainer = trainer_of(run)
    assert reap(find_orphans(stage.root)) == [trainer.pid]
    assert find_orphans(stage.root) == []
    stop_run(run)
    assert [event["noticed_by"] for event in events(run, "lost")] == ["reap"]


def test_a_process_with_the_same_name_survives(stage: Stage, bystander: int) -> None:
    run = stage.long("--ignore-signals")
    stop_run(run)
    assert exists(bystander)
    assert members(run) == []


def test_a_deaf_trainer_gets_harder_signals_until_it_is_gone(stage: Stage) -> None:
    run = stage.long("--ignore-signals")
    trainer = trainer_of(run)
    assert stop_run(run).reason == f"stopped by user at step {logged(run)[-1]} of 1000"
    sent = [(event["signal"], event["pids"]) for event in events(run, "signal")]
    assert sent == [(name, [trainer.pid]) for name in ("SIGINT", "SIGTERM", "SIGKILL")]


def test_kill_9_of_the_trainer_leaves_no_grandchild(stage: Stage, bystander: int) -> None:
    run = stage.long("--family")
    grandchildren = family(run)
    send(trainer_of(run), signal.SIGKILL)
    state = ended(run)
    assert (state.state, state.signal) == ("failed", "SIGKILL")
    assert not any(exists(pid) for pid in grandchildren)
    assert exists(bystander)


def test_a_grandchild_that_hides_its_mark_ends_with_a_stop(stage: Stage) -> None:
    run = stage.long("--family")
    grandchildren = family(run)
    assert stop_run(run).ended
    assert not any(exists(pid) for pid in grandchildren)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_from_another_process_is_not_a_stop_by_the_user(stage: Stage, name: str) -> None:
    run = stage.long()
    send(trainer_of(run), signal.Signals[name])
    state = ended(run)
    assert (state.state, state.signal) == ("failed", name)
    assert f"{name} from outside at step" in (state.reason or "")


def test_sigterm_to_the_supervisor_stops_the_run_in_order(stage: Stage) -> None:
    run = stage.long("--family")
    send(supervisor_of(run), signal.SIGTERM)
    state = ended(run)
    assert state.state == "finished"
    assert (state.reason or "").startswith("stopped by SIGTERM to its supervisor at step ")
    assert not state.went_well
    assert not any(exists(pid) for pid in family(run))
    assert [event["asked_by"] for event in events(run, "stop")] == ["SIGTERM to its supervisor"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_lost_terminal_does_not_touch_the_supervisor(
    stage: Stage, number: signal.Signals
) -> None:
    run = stage.start("--hang-at", "2")
    wait_for(lambda: logged(run) == [1])
    send(supervisor_of(run), number)
    (run.attempt(1).path / "go").touch()
    assert ended(run).state == "finished"


def test_a_pid_that_was_given_to_another_process_is_not_signalled(
    stage: Stage, bystander: int
) -> None:
    run = stage.long()
    lose(run)
    stop_run(run)
    other = identify(bystander)
    assert other is not None
    forged = replace(other, start=other.start - 1)
    write_state(run, RunState("running", trainer=forged, supervisor=forged, heartbeat=1e9))
    assert observed_state(run).state == "lost"
    assert stop_run(run).pids == []
    assert not send(forged, signal.SIGKILL)
    assert alive(other)


def test_a_frozen_supervisor_is_not_running(stage: Stage) -> None:
    run = stage.long()
    supervisor = supervisor_of(run)
    send(supervisor, signal.SIGSTOP)
    state = recorded_state(run)
    assert state is not None and state.beat is not None
    write_state(run, state.evolve(beat=state.beat - 61))
    assert "no heartbeat of the supervisor for" in (in_state(run, "stalled").reason or "")


def test_a_frozen_supervisor_is_woken_to_stop_its_run_in_order(stage: Stage) -> None:
    run = stage.long()
    send(supervisor_of(run), signal.SIGSTOP)
    stopped = stop_run(run)
    assert stopped.ended
    assert (stopped.reason or "").startswith("stopped by user at step")
    assert members(run) == []


def test_a_supervisor_that_dies_before_it_names_its_trainer_leaves_none(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor that is killed right after it started the trainer."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "sitecustomize.py").write_text(
        textwrap.dedent("""
        import os, signal, subprocess, sys
        class Popen(subprocess.Popen):
            def __init__(self, *arguments, **options):
                super().__init__(*arguments, **options)
                os.kill(os.getpid(), signal.SIGKILL)
        if "engine.supervise.supervisor" in sys.orig_argv:
            subprocess.Popen = Popen
        """)
    )
    monkeypatch.setenv("PYTHONPATH", f"{package}:{ROOT}")
    run = stage.prepare("--sleep", "0.1", steps=1000)
    with pytest.raises(UsageError, match="the supervisor did not start"):
        start_supervisor(run)
    state = recorded_state(run)
    assert state is not None
    assert (state.state, state.reason) == ("failed", "the supervisor did not start")
    assert members(run) == []


def test_a_run_launched_from_a_shell_with_the_marks_of_another_is_not_that_run_s(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = stage.start(steps=1)
    ended(over)
    monkeypatch.setenv("GRUBRICS_RUN_ID", over.id)
    monkeypatch.setenv("GRUBRICS_ATTEMPT_DIR", str(over.attempt(1).path))
    monkeypatch.setenv("GRUBRICS_ON_CLUSTER", "1")
    run = stage.long()
    assert find_orphans(stage.root) == []
    assert {process.pid for process in members(run)} == {trainer_of(run).pid}
