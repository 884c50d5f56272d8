"""What the supervisor saw of a run's end completes what its console tells."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from engine.doctor.run_end import adjust_to_end, offer_fixes
from engine.findings.finding import Finding, Severity
from engine.runs.state import RunState, write_state
from tests.engine.checkpoints.checkpoint_files import save
from tests.engine.reports.runs import make_run

INTERRUPTED = Finding("job_cancelled_or_interrupted.keyboard", Severity.ERROR, "stopped", "Ctrl-C")


def test_a_stop_that_was_asked_for_is_no_alarm() -> None:
    [one] = adjust_to_end(
        [INTERRUPTED], RunState("finished", reason="stopped by user at step 3 of 9")
    )
    assert one.severity is Severity.INFO


def test_nor_is_it_while_the_run_still_stops() -> None:
    [one] = adjust_to_end([INTERRUPTED], RunState("running"), stop_is_asked=True)
    assert one.severity is Severity.INFO


def test_a_run_that_was_interrupted_before_the_stop_it_was_asked_for_is_one() -> None:
    failed = RunState("failed", reason="exit code 1")
    assert adjust_to_end([INTERRUPTED], failed, stop_is_asked=True) == [INTERRUPTED]


def test_an_interrupt_nobody_asked_for_stays_an_error() -> None:
    assert adjust_to_end([INTERRUPTED], RunState("failed", reason="exit code 1")) == [INTERRUPTED]


def test_a_run_that_reached_its_end_got_over_its_errors() -> None:
    crash = Finding("wandb_teardown_or_crash", Severity.ERROR, "crash", "at exit")
    judge = Finding("judge_auth", Severity.ERROR, "refused", "no key")
    finished = RunState("finished", reason="teardown crash: exit code 1 after the last step")
    assert [finding.severity for finding in adjust_to_end([crash, judge], finished)] == [
        "info",
        "error",
    ]


def test_a_kill_that_left_no_word_behind_is_told() -> None:
    reason = "killed by SIGKILL (by hand, or out of memory?)"
    [one] = adjust_to_end([], RunState("failed", reason=reason, step=7))
    assert (one.id, one.onset_step) == ("job_cancelled_or_interrupted.killed", 7)
    assert one.evidence[0].text == reason


@pytest.mark.parametrize(
    ("id", "state", "offered"),
    [
        ("host_oom.worker_killed", "failed", True),
        ("job_cancelled_or_interrupted.killed", "lost", True),
        ("loss_nan", "failed", False),
        ("host_oom.worker_killed", "running", False),
    ],
)
def test_what_failed_from_outside_is_resumed_from_its_last_checkpoint(
    tmp_path: Path, id: str, state: str, offered: bool
) -> None:
    run = make_run(tmp_path)
    save(tmp_path / "checkpoints", 20)
    write_state(run, RunState("failed", ended=time.time()))
    root = Finding(id, Severity.CRITICAL, "It broke", "because")
    (one,) = offer_fixes([root], run, RunState(state))  # type: ignore[arg-type]
    titles = [remedy.title for remedy in one.remedies]
    assert ("Resume from step 20" in titles) == offered
