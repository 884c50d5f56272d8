"""What the supervisor saw of a run's end completes what its console tells."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from engine.doctor.diagnose import diagnose_file
from engine.doctor.run_end import adjust_to_end, adjust_to_run, explain_failure, offer_fixes
from engine.run.events import ask_stop, log_event
from engine.run.finding import Evidence, Finding, Severity
from engine.run.state import RunState, write_state
from tests.engine.report.runs import make_run
from tests.engine.run.checkpoints.checkpoint_files import save

INTERRUPTED = Finding("job_cancelled_or_interrupted.keyboard", Severity.ERROR, "stopped", "Ctrl-C")


SLOW_WORKER = Finding(
    "ray_start_or_worker_died.slow", Severity.CRITICAL, "slow", "60 s", (Evidence("timeout"),)
)


@pytest.mark.parametrize("who", ["user", "the guard", "its fix"])
def test_the_signals_of_a_requested_stop_are_no_finding(who: str) -> None:
    state = RunState("finished", reason=f"stopped by {who} at step 3 of 9")
    judge = Finding("judge_auth", Severity.ERROR, "refused", "no key", followed_by=(INTERRUPTED,))
    assert adjust_to_end([INTERRUPTED], state) == []
    [finding] = adjust_to_end([judge], state)
    assert (finding.severity, finding.followed_by) == ("error", ())


def test_nor_are_they_while_the_run_still_stops() -> None:
    assert adjust_to_end([INTERRUPTED], RunState("stopping"), stop_is_asked=True) == []


def _crash(offset: int) -> Finding:
    evidence = Evidence("AttributeError: partially initialized module", "console.log", offset)
    return Finding("data_missing_or_schema", Severity.ERROR, "data", "pandas", (evidence,))


@pytest.mark.parametrize(
    "state",
    [
        RunState("finished", attempt=2, reason="stopped by its fix before the first step"),
        RunState("finished", attempt=2, reason="stopped by SIGTERM to its supervisor at step 3"),
    ],
    ids=lambda state: state.reason,
)
def test_an_exception_that_the_interrupt_became_is_no_alert(
    tmp_path: Path, state: RunState
) -> None:
    run = make_run(tmp_path)
    log_event(run, "stop", attempt=1, console_bytes=10)
    log_event(run, "stop", attempt=2, console_bytes=500)
    findings = adjust_to_run([_crash(offset=499), _crash(offset=500)], run, state)
    assert [finding.severity for finding in findings] == ["error", "info"]


def test_nor_is_it_while_the_run_still_stops(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    ask_stop(run)
    log_event(run, "stop", attempt=1, console_bytes=500)
    [finding] = adjust_to_run([_crash(offset=500)], run, RunState("stopping", attempt=1))
    assert finding.severity is Severity.INFO


def test_a_crash_of_a_run_that_nobody_stopped_is_an_alert(tmp_path: Path) -> None:
    failed = RunState("failed", attempt=1, reason="exit code 1 at step 3")
    [finding] = adjust_to_run([_crash(offset=500)], make_run(tmp_path), failed)
    assert finding.severity is Severity.ERROR


def test_a_stop_from_outside_is_information() -> None:
    state = RunState("finished", reason="stopped by SIGTERM to its supervisor at step 3")
    [finding] = adjust_to_end([INTERRUPTED], state)
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(
    ("state", "severity"),
    [
        (RunState("starting", waiting_for="rollout server"), "warning"),
        (RunState("running"), "warning"),
        (RunState("stalled"), "critical"),
        (RunState("failed", reason="exit code 1"), "critical"),
        (RunState("lost"), "critical"),
        (RunState("finished", reason="stopped by user before the first step"), "warning"),
        (RunState("finished"), "info"),
    ],
    ids=lambda value: getattr(value, "word", value),
)
def test_what_ray_may_recover_from_is_a_warning_until_the_run_has_failed(
    state: RunState, severity: str
) -> None:
    [finding] = adjust_to_end([SLOW_WORKER], state)
    assert finding.severity == severity


def test_a_traceback_below_ray_stays_critical() -> None:
    raised = replace(SLOW_WORKER, evidence=(Evidence("RayError"), Evidence("raised in main.py:3")))
    assert adjust_to_end([raised], RunState("starting")) == [raised]


def test_a_run_that_was_interrupted_before_the_stop_it_was_asked_for_is_one() -> None:
    failed = RunState("failed", reason="exit code 1")
    assert adjust_to_end([INTERRUPTED], failed, stop_is_asked=True) == [INTERRUPTED]


def test_an_interrupt_nobody_asked_for_stays_an_error() -> None:
    assert adjust_to_end([INTERRUPTED], RunState("failed", reason="exit code 1")) == [INTERRUPTED]


@pytest.mark.row("G51")
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
    ("line", "severities"),
    [
        ("the zygote that forks Ray's workers died or was killed", ["error", "warning"]),
        ("the trainer ended, and the workers of its Ray with it", ["error"]),
    ],
)
def test_the_kill_of_the_trainer_is_the_cause_and_not_what_its_ray_reports(
    tmp_path: Path, line: str, severities: list[str]
) -> None:
    console = tmp_path / "console.log"
    console.write_text(f"{line}\n")
    reason = "killed by SIGKILL (by hand, or out of memory?) at step 3 of 9"
    state = RunState("failed", reason=reason, signal="SIGKILL", step=3)
    found = adjust_to_end(diagnose_file(console), state)
    assert found[0].id == "job_cancelled_or_interrupted.killed"
    assert [finding.severity for finding in found] == severities


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
    titles = [fix.title for fix in one.fixes]
    assert ("Resume from step 20" in titles) == offered


class TestAFailureThatNoRuleKnows:
    failed = RunState("failed", reason="exit code 3 before the first step", exit_code=3)

    def test_is_a_finding_with_the_last_lines_of_the_console(self, tmp_path: Path) -> None:
        run = make_run(tmp_path)
        run.attempt(1).path.mkdir()
        run.attempt(1).console.write_text("one\ntwo\nthree\n\n\x1b[31mno such table\x1b[0m\n\n")
        [finding] = explain_failure([], run, self.failed)
        assert finding.id == "training_setup_error.unexplained" and finding.severity.is_alert
        texts = [evidence.text for evidence in finding.evidence]
        assert texts == [self.failed.reason, "two", "three", "no such table"]

    def test_is_none_where_an_error_is_known(self, tmp_path: Path) -> None:
        assert explain_failure([SLOW_WORKER], make_run(tmp_path), self.failed) == [SLOW_WORKER]

    @pytest.mark.parametrize(
        "state",
        [
            RunState("running"),
            RunState("finished", exit_code=0),
            RunState("finished", reason="stopped by user at step 3", signal="SIGTERM"),
            RunState("failed", reason="not started: run 'a' failed"),
        ],
        ids=lambda state: state.reason or state.state,
    )
    def test_is_none_in_any_other_state(self, tmp_path: Path, state: RunState) -> None:
        assert explain_failure([], make_run(tmp_path), state) == []
