"""A supervised run, from start to verdict, with a stand-in for the trainer."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.run.events import ask_stop
from engine.run.history.train_log import read_steps
from engine.run.processes import members, send
from engine.run.run import Run
from engine.run.state import observed_state, recorded_state
from engine.supervise.stopping import stop_run
from tests.engine.supervise.faults.stage import Stage
from tests.waiting import ended, wait_for

pytestmark = pytest.mark.waits


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Starts a run below ``tmp_path``; nothing of it is left afterwards."""
    stage = Stage(tmp_path / "runs")
    yield stage.start
    stage.clear_away()


def logged(run: Run, at_least: int) -> Callable[[], bool]:
    return lambda: len(list(read_steps(run.train_log))) >= at_least


def test_a_run_that_reaches_its_last_step_is_finished(start: Callable[..., Run]) -> None:
    state = ended(start())
    assert (state.state, state.step, state.exit_code) == ("finished", 3, 0)


def test_every_step_is_one_line_with_reward_and_judge_metrics(start: Callable[..., Run]) -> None:
    run = start()
    ended(run)
    steps = list(read_steps(run.train_log))
    assert [step.step for step in steps] == [1, 2, 3]
    assert steps[0].metrics["reward/mean"] == 0.5
    assert steps[0].metrics["reward/std"] == 0.25
    assert steps[0].metrics["judge_api_latency_s"] == 0.5


def test_an_exception_makes_a_failed_run_that_names_it(start: Callable[..., Run]) -> None:
    state = ended(start("--fail-at", "2"))
    assert state.state == "failed"
    assert "exit code 1 at step 1 of 3" in (state.reason or "")
    assert "RuntimeError: the loss went for a walk" in (state.reason or "")


def test_exit_code_0_before_the_last_step_is_a_failure(start: Callable[..., Run]) -> None:
    state = ended(start(steps=2, total=5))
    assert (state.state, state.reason) == ("failed", "exit code 0, but ended at step 2 of 5")


def test_a_stop_ends_the_run_and_says_who_stopped_it(start: Callable[..., Run]) -> None:
    run = start("--sleep", "0.2", steps=500)
    wait_for(logged(run, 1))
    done = stop_run(run)
    assert done.ended
    assert (done.reason or "").startswith("stopped by user at step ")
    assert members(run) == []


def test_stopping_twice_is_stopping_once(start: Callable[..., Run]) -> None:
    run = start("--sleep", "0.2", steps=500)
    wait_for(logged(run, 1))
    ask_stop(run)
    ask_stop(run)
    assert ended(run).state == "finished"
    assert stop_run(run).ended


def test_a_process_that_left_the_session_does_not_outlive_the_run(
    start: Callable[..., Run],
) -> None:
    run = start("--orphan")
    ended(run)
    assert members(run) == []


def test_a_killed_trainer_is_failed_with_the_signal(start: Callable[..., Run]) -> None:
    run = start("--sleep", "0.2", steps=500)
    wait_for(logged(run, 1))
    trainer = recorded_state(run).trainer  # type: ignore[union-attr]
    assert trainer is not None
    send(trainer, signal.SIGKILL)
    state = ended(run)
    assert (state.state, state.signal) == ("failed", "SIGKILL")
    assert "killed by SIGKILL" in (state.reason or "")


def test_a_run_without_its_supervisor_is_lost_not_running(start: Callable[..., Run]) -> None:
    run = start("--sleep", "0.2", steps=500)
    wait_for(logged(run, 1))
    state = recorded_state(run)
    assert state is not None and state.supervisor is not None and state.trainer is not None
    send(state.supervisor, signal.SIGKILL)
    wait_for(lambda: observed_state(run).state == "lost")
    send(state.trainer, signal.SIGKILL)


def test_the_trainer_knows_its_run_and_has_a_session_of_its_own(
    start: Callable[..., Run],
) -> None:
    run = start("--sleep", "0.2", steps=500)
    wait_for(logged(run, 1))
    trainer = recorded_state(run).trainer  # type: ignore[union-attr]
    assert trainer is not None
    environment = Path(f"/proc/{trainer.pid}/environ").read_bytes().split(b"\0")
    assert f"GRUBRICS_RUN_ID={run.id}".encode() in environment
    assert os.getsid(trainer.pid) != os.getsid(0)
    stop_run(run)


def test_stopping_a_lost_run_ends_its_remaining_processes(start: Callable[..., Run]) -> None:
    run = start("--sleep", "0.2", steps=500)
    wait_for(logged(run, 1))
    supervisor = recorded_state(run).supervisor  # type: ignore[union-attr]
    assert supervisor is not None
    send(supervisor, signal.SIGKILL)
    wait_for(lambda: observed_state(run).state == "lost")
    done = stop_run(run)
    assert done.ended
    assert len(done.pids) == 1
    assert members(run) == []
