"""Stops and resumes that come at an awkward moment."""

from __future__ import annotations

import json

import pytest

from engine.base.errors import UsageError
from engine.doctor.diagnose import diagnose_run
from engine.launch.launcher import start_supervisor
from engine.launch.resume import resume
from engine.run.checkpoints.step_folders import TRACKER
from engine.run.events import ask_stop
from engine.run.finding import Severity
from engine.run.processes import members
from engine.run.state import observed_state
from engine.supervise.stopping import stop_run
from tests.engine.run.checkpoints.checkpoint_files import save
from tests.engine.supervise.faults.stage import Stage, events, in_state, logged, stop_begins
from tests.waiting import ended, wait_for

pytestmark = pytest.mark.waits


def test_a_stop_requested_before_the_trainer_starts_is_obeyed(stage: Stage) -> None:
    run = stage.prepare("--hang-at", "1")
    ask_stop(run)
    start_supervisor(run)
    state = ended(run)
    assert (state.state, state.reason) == ("finished", "stopped by user before the first step")
    assert members(run) == []


def test_a_stop_during_the_start_is_heard(stage: Stage) -> None:
    run = stage.start("--hang-at", "1", steps=1000)
    in_state(run, "starting")
    assert stop_run(run).reason == "stopped by user before the first step"
    assert logged(run) == []


def test_a_stop_now_overtakes_a_stop_after_the_next_checkpoint(stage: Stage) -> None:
    run = stage.long(checkpoints=stage.root.parent / "checkpoints")
    stop_run(run, after_checkpoint=True)
    wait_for(lambda: observed_state(run).reason == "stops after the next checkpoint")
    assert observed_state(run).state == "running"
    assert (stop_run(run).reason or "").startswith("stopped by user at step ")


def test_a_stop_after_the_next_checkpoint_waits_for_it(stage: Stage) -> None:
    checkpoints = stage.root.parent / "checkpoints"
    run = stage.long(checkpoints=checkpoints)
    stop_run(run, after_checkpoint=True)
    wait_for(lambda: observed_state(run).reason == "stops after the next checkpoint")
    save(checkpoints, 1)
    assert (checkpoints / TRACKER).exists()
    assert (ended(run).reason or "").startswith("stopped by user at step ")


def test_an_exception_that_the_interrupt_became_is_no_alert(stage: Stage) -> None:
    run = stage.long("--fail-on-interrupt", interrupt_patience_s=30)
    stop_run(run)
    assert "RuntimeError: the loss went for a walk" in run.attempt(1).console.read_text()
    [finding] = diagnose_run(run)
    assert finding.severity is Severity.INFO
    [stop] = events(run, "stop")
    evidence = finding.evidence[0]
    assert evidence.offset is not None and evidence.offset >= stop["console_bytes"] > 0


def test_two_stops_are_one(stage: Stage) -> None:
    run = stage.long("--ignore-signals")
    ask_stop(run)
    stop_begins(run)
    assert stop_run(run).ended
    assert len(events(run, "stop")) == 1
    assert [event["signal"] for event in events(run, "signal")] == ["SIGINT", "SIGTERM", "SIGKILL"]


def test_a_stop_that_comes_too_late_changes_nothing(stage: Stage) -> None:
    run = stage.start()
    ended(run)
    before = run.state_file.read_bytes()
    done = stop_run(run)
    assert (done.ended, done.state, done.reason) == (True, "finished", None)
    assert run.state_file.read_bytes() == before
    assert not run.requests.exists()


@pytest.mark.sample(2)
@pytest.mark.parametrize("torn", ["", "{", '{"v": 1, "after_', "null", "[]"])
def test_a_torn_stop_request_is_ignored(stage: Stage, torn: str) -> None:
    run = stage.prepare()
    run.requests.mkdir()
    (run.requests / "stop.json").write_text(torn)
    start_supervisor(run)
    assert ended(run).reason is None
    assert logged(run) == [1, 2, 3]


def test_a_stop_request_with_nonsense_in_it_is_still_a_stop(stage: Stage) -> None:
    run = stage.long()
    run.requests.mkdir()
    (run.requests / "stop.json").write_text(json.dumps({"t": "soon", "after_checkpoint": 7}))
    assert (ended(run).reason or "").startswith("stopped by user at step ")


def test_a_request_that_vanishes_does_not_end_the_stop_halfway(stage: Stage) -> None:
    run = stage.long("--ignore-signals")
    ask_stop(run)
    stop_begins(run)
    (run.requests / "stop.json").unlink()
    assert ended(run).state == "finished"
    assert members(run) == []


def test_a_running_run_is_not_resumed(stage: Stage) -> None:
    run = stage.long()
    with pytest.raises(UsageError, match=r"still active \(.*\)"):
        resume(run)
    assert len(run.read_manifest().attempts) == 1
