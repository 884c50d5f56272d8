"""What a run is called when it ends oddly, hangs, or its supervisor fails."""

from __future__ import annotations

import signal
import textwrap
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.doctor.diagnose import diagnose_run
from engine.launch.launcher import start_supervisor
from engine.run.manifest import AttemptRecord
from engine.run.processes import members, send
from engine.run.state import RunState, observed_state, write_state
from engine.run.trust import vouch
from engine.supervise.stopping import stop_run
from tests.engine.run.checkpoints.checkpoint_files import save
from tests.engine.supervise.faults.stage import (
    Stage,
    events,
    in_state,
    logged,
    trainer_of,
)
from tests.paths import ROOT
from tests.waiting import ended, wait_for

pytestmark = pytest.mark.waits


def test_a_crash_after_the_last_step_with_its_checkpoint_is_finished(stage: Stage) -> None:
    checkpoints = stage.root.parent / "checkpoints"
    options = ("--save-to", str(checkpoints), "--exit", "7")
    state = ended(stage.start(*options, checkpoints=checkpoints))
    assert state.state == "finished"
    assert state.reason == "teardown crash: exit code 7 after the last step"
    assert state.exit_code == 7


def test_a_crash_after_the_last_step_without_a_checkpoint_is_failed(stage: Stage) -> None:
    checkpoints = stage.root.parent / "checkpoints"
    run = stage.prepare("--exit", "7", checkpoints=checkpoints)
    save(checkpoints, 3)
    for shard in (checkpoints / "global_step_3" / "actor").glob("*.pt"):
        shard.unlink()
    start_supervisor(run)
    state = ended(run)
    assert (state.state, state.step) == ("failed", 3)
    assert (state.reason or "").startswith("exit code 7 at step 3 of 3")


def test_exit_code_0_before_the_first_step_is_failed(stage: Stage) -> None:
    state = ended(stage.start(steps=0, total=5))
    assert state.state == "failed"
    assert state.reason == "exit code 0, but ended before the first step"


def test_a_hanging_trainer_is_stalled_with_where_and_runs_again_when_steps_come(
    stage: Stage,
) -> None:
    run = stage.start(
        "--sleep", "0.1", "--hang-at", "4", steps=6, stall_floor_s=1.0, stack_dumps=True
    )
    reason = in_state(run, "stalled", step=3).reason or ""
    assert reason.startswith("no step for ")
    stall = events(run, "stall")[-1]
    assert (stall["step"], stall["reason"]) == (3, reason)
    if stacks := sorted(run.attempt(1).path.glob("stacks-*.txt")):  # where py-spy may look
        assert " is in hang_until (" in reason
        assert "hang_until" in stacks[-1].read_text()
    (run.attempt(1).path / "go").touch()
    state = ended(run)
    assert (state.state, state.reason, state.step) == ("finished", None, 6)


def test_a_start_that_hangs_is_stalled_not_starting_for_ever(stage: Stage) -> None:
    run = stage.start("--hang-at", "1", start_patience_s=0.5)
    state = in_state(run, "stalled")
    assert (state.reason or "").startswith("no first step after ")
    assert state.waiting_for is not None
    (run.attempt(1).path / "go").touch()
    assert ended(run).state == "finished"


@pytest.mark.parametrize("hang_at", ["1", "2"], ids=["first-step", "second-step"])
def test_a_frozen_trainer_is_stalled_before_step_times_are_known_until_it_continues(
    stage: Stage, hang_at: str
) -> None:
    run = stage.start("--hang-at", hang_at, stall_floor_s=1.0, start_patience_s=1800.0)
    before = "starting" if hang_at == "1" else "running"
    in_state(run, before, step=None if hang_at == "1" else 1)
    wait_for(lambda: trainer_of(run) is not None)
    send(trainer_of(run), signal.SIGSTOP)
    reason = in_state(run, "stalled").reason or ""
    assert "is stopped (state T): kill -CONT" in reason
    assert events(run, "stall")[-1]["kind"] == "stopped"
    assert [finding.id for finding in diagnose_run(run)][:1] == ["stalled.stopped"]
    send(trainer_of(run), signal.SIGCONT)
    assert in_state(run, before).reason is None
    assert diagnose_run(run) == []
    (run.attempt(1).path / "go").touch()
    assert ended(run).state == "finished"


def test_a_frozen_trainer_can_be_stopped(stage: Stage) -> None:
    run = stage.long(stall_floor_s=1.0)
    in_state(run, "running")
    send(trainer_of(run), signal.SIGSTOP)
    in_state(run, "stalled")
    assert stop_run(run).ended
    assert members(run) == []


def test_a_command_that_does_not_exist_fails_and_keeps_the_state(stage: Stage) -> None:
    run = stage.prepare()
    manifest = run.read_full_manifest()
    attempts = [*manifest.attempts, AttemptRecord(number=2, argv=("/no/such/trainer",))]
    run.write_manifest(replace(manifest, attempts=attempts))
    vouch(run)
    write_state(run, RunState("starting", attempt=2, step=2, total_steps=3))
    start_supervisor(run)
    state = ended(run)
    assert (state.state, state.attempt, state.total_steps) == ("failed", 2, 3)
    assert "/no/such/trainer" in (state.reason or "")


@pytest.fixture
def broken_supervisor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A supervisor with a defect that shows at the second step."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "sitecustomize.py").write_text(
        textwrap.dedent("""
        import sys
        if "engine.supervise.supervisor" in sys.orig_argv:
            from engine.supervise.stall import StallWatch
            honest = StallWatch.step
            def step(self):
                honest(self)
                if self._steps == 2:
                    raise ZeroDivisionError("a defect")
            StallWatch.step = step
        """)
    )
    monkeypatch.setenv("PYTHONPATH", f"{package}:{ROOT}")


@pytest.mark.usefixtures("broken_supervisor")
def test_a_defect_of_the_supervisor_ends_no_training_and_loses_no_step(stage: Stage) -> None:
    run = stage.start(steps=5)
    state = ended(run)
    assert (state.state, state.reason, state.step) == ("finished", None, 5)
    assert logged(run) == [1, 2, 3, 4, 5]


@pytest.fixture
def broken_instrument(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU driver that goes away, as it does in a container whose device rules are reloaded."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "sitecustomize.py").write_text(
        textwrap.dedent("""
        import sys
        if "engine.supervise.supervisor" in sys.orig_argv:
            from engine.run.host.system import SystemSampler
            def sample(self, pids):
                raise RuntimeError("NVML: Unknown Error")
            SystemSampler.sample = sample
        """)
    )
    monkeypatch.setenv("PYTHONPATH", f"{package}:{ROOT}")


@pytest.mark.usefixtures("broken_instrument")
def test_an_instrument_that_breaks_does_not_end_the_run(stage: Stage) -> None:
    run = stage.start("--sleep", "0.2", steps=15)
    assert ended(run).state == "finished"
    assert logged(run) == list(range(1, 16))
    warnings = [event["message"] for event in events(run, "warning")]
    assert warnings == ["RuntimeError: NVML: Unknown Error"]


def test_the_final_state_is_never_missed_between_two_polls(stage: Stage) -> None:
    run = stage.start(steps=1)
    states: list[str] = []
    wait_for(lambda: states.append(observed_state(run).state) is None and states[-1] == "finished")
    assert "lost" not in states
