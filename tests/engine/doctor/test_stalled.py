"""A run that gets nowhere is a finding: who holds it up, and the way on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.doctor.diagnose import diagnose_run
from engine.doctor.live import RunFollower
from engine.doctor.run_files import RunFiles
from engine.run.events import log_event
from engine.run.finding import Finding
from engine.run.run import Run
from engine.run.state import RunState, write_state
from tests.engine.report.runs import make_run

REASON = "no step for 60 s; WorkerDict 7 is stopped (state T): kill -CONT 7"
STOPPED = {"kind": "stopped", "process": "WorkerDict", "pid": 7, "process_state": "T"}


def hung(tmp_path: Path, **seen: Any) -> Run:
    run = make_run(tmp_path)
    run.attempt(1).path.mkdir(exist_ok=True)
    log_event(run, "start", attempt=1)
    log_event(run, "stall", step=4, reason=REASON, **{**STOPPED, **seen})
    return run


def found(run: Run, state: str, step: int = 4, reason: str | None = None) -> list[Finding]:
    return RunFiles(run).findings(RunState(state, reason=reason, step=step))  # type: ignore[arg-type]


def test_a_stopped_process_is_named_with_the_way_on(tmp_path: Path) -> None:
    (one,) = found(hung(tmp_path), "stalled")
    assert (one.id, one.severity, one.onset_step) == ("stalled.stopped", "error", 4)
    assert "WorkerDict 7 is stopped" in one.title
    assert one.fixes[0].changes[0].after == "kill -CONT 7"


def test_its_stacks_are_evidence(tmp_path: Path) -> None:
    run = hung(tmp_path, stacks="stacks-090000.txt")
    (run.attempt(1).path / "stacks-090000.txt").write_text("== WorkerDict 7")
    (one,) = found(run, "stalled")
    assert [Path(seen.path or "").name for seen in one.evidence][1] == "stacks-090000.txt"


def test_after_its_end_it_is_still_said_what_it_hung_in(tmp_path: Path) -> None:
    (one,) = found(hung(tmp_path), "finished", reason="stopped by user at step 4 of 9")
    assert "resume" in one.fixes[-1].title
    assert not any(change for fix in one.fixes for change in fix.changes)


@pytest.mark.parametrize(("state", "step"), [("running", 4), ("failed", 5), ("finished", 4)])
def test_a_run_that_got_over_it_has_no_such_finding(tmp_path: Path, state: str, step: int) -> None:
    assert found(hung(tmp_path), state, step) == []


def test_another_attempt_begins_without_it(tmp_path: Path) -> None:
    run = hung(tmp_path)
    log_event(run, "start", attempt=2)
    assert found(run, "failed") == []


def test_a_process_that_continued_is_not_what_the_run_ended_of(tmp_path: Path) -> None:
    run = hung(tmp_path)
    log_event(run, "continued", step=4)
    assert found(run, "failed") == []


@pytest.mark.parametrize("kind", ["disk", "zombie", "spinning", "judge", "code", "waiting", None])
def test_every_way_to_hang_has_a_name_and_an_advice(tmp_path: Path, kind: str | None) -> None:
    (one,) = found(hung(tmp_path, kind=kind), "stalled")
    assert one.id == f"stalled.{kind or 'unknown'}"
    assert one.fixes


def test_it_is_the_first_finding_of_command_and_screen(tmp_path: Path) -> None:
    run = hung(tmp_path)
    write_state(run, RunState("finished", reason="stopped by user at step 4 of 9", step=4))
    assert diagnose_run(run)[0].id == "stalled.stopped"
    assert RunFollower(run).diagnose()[1][0].id == "stalled.stopped"


def test_what_the_system_refused_the_supervisor_is_said_unless_the_run_did_every_step(
    tmp_path: Path,
) -> None:
    run = make_run(tmp_path)
    log_event(run, "start", attempt=1)
    log_event(run, "warning", kind="system", message="cannot read its output: Stale file handle")
    (one,) = found(run, "failed")
    assert one.id == "stalled.system" and "Stale file handle" in one.title
    assert found(run, "finished") == []
    log_event(run, "start", attempt=2)
    assert found(run, "failed") == []
