"""The screen of a run that ended or stalled says why in its first line, and what to do next."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.run.finding import Change, Finding, Fix, Severity
from engine.run.run import Run
from engine.run.state import RunState
from grubrics_tui.model.history import History
from grubrics_tui.screens.dialogs.confirm import Confirm
from grubrics_tui.screens.live.banner import next_steps
from grubrics_tui.screens.log.screen import LogScreen
from grubrics_tui.screens.navigation import OpenRun
from tests.grubrics_tui.every_screen import arrive, save_checkpoint
from tests.grubrics_tui.pilots import LARGE, SMALL, Driver, running
from tests.grubrics_tui.sample_run import SampleRun

FEWER = Fix("Fewer rollouts", (Change("config", "rollout.n", 4, 8),))


def ended(state: RunState, *findings: Finding) -> History:
    history = History()
    history.state = state
    history.set_findings(findings)
    return history


def found(category: str, *fixes: Fix) -> Finding:
    return Finding(category, Severity.CRITICAL, "It broke", "because", fixes=fixes)


def actions(history: History, resume_step: int | None = None) -> list[str]:
    return [action for action, _ in next_steps(history, resume_step)]


FAILED = RunState("failed", reason="exit code 1", step=13)


def test_a_run_that_was_killed_is_resumed_first() -> None:
    history = ended(FAILED, found("job_cancelled_or_interrupted"))
    assert actions(history, 10) == ["resume", "open_log", "findings", "reproduce"]


def test_a_run_whose_config_is_wrong_is_fixed_first() -> None:
    history = ended(FAILED, found("cuda_oom_training", FEWER))
    assert actions(history, 10) == ["launch_fix", "open_log", "findings", "resume", "reproduce"]


def test_without_a_checkpoint_no_resume_is_offered() -> None:
    assert actions(ended(FAILED)) == ["open_log", "reproduce"]


@pytest.mark.parametrize(
    ("step", "label"),
    [
        (10, "resume from step 10 (3 steps again)"),
        (12, "resume from step 12 (1 step again)"),
        (13, "resume from step 13"),
        (0, "resume from the start (13 steps again)"),
    ],
)
def test_a_resume_says_how_many_steps_are_repeated(step: int, label: str) -> None:
    assert next_steps(ended(FAILED), step)[0] == ("resume", label)


def test_an_unhealthy_run_offers_its_fix_and_a_healthy_one_its_summary() -> None:
    finished = RunState("finished")
    unhealthy = ended(finished, found("training_divergence_or_nan", FEWER))
    assert actions(unhealthy) == ["launch_fix", "findings", "summary", "log_entry"]
    assert actions(ended(finished)) == ["summary", "log_entry"]


def test_a_command_is_run_again_where_a_run_of_a_config_is_resumed() -> None:
    for reason in ("exit code 1", "killed by SIGKILL"):
        steps = next_steps(ended(RunState("failed", reason=reason)), 10, is_command=True)
        assert [action for action, _ in steps] == ["relaunch", "open_log"]
    broken = ended(RunState("failed"), found("training_divergence_or_nan", FEWER))
    steps = next_steps(broken, is_command=True)
    assert "launch_fix" not in [action for action, _ in steps], "it has no config to change"


def test_a_stopped_run_can_be_resumed() -> None:
    stopped = RunState("finished", reason="stopped by user at step 13 of 40", step=13)
    assert actions(ended(stopped), 10) == ["resume", "summary", "log_entry"]


def test_a_stalled_run_offers_its_findings_and_stop() -> None:
    assert actions(ended(RunState("stalled"))) == ["findings", "stop"]
    assert actions(ended(RunState("running"))) == []


async def show(driver: Driver, run: Run) -> None:
    driver.app.post_message(OpenRun(run))


@pytest.mark.sample(1)
@pytest.mark.waits
@pytest.mark.parametrize("size", [LARGE, SMALL])
async def test_a_failed_run_is_explained_in_one_line_with_the_keys_below(
    unhealthy: SampleRun, runs: Path, quick: list[bool], size: tuple[int, int]
) -> None:
    async with running(runs, size) as driver:
        await show(driver, unhealthy.run)
        screen = await driver.shows("failed: GPU out of memory in training", "a fix", "l log at")
        lines = screen.splitlines()
        (head,) = [row for row, line in enumerate(lines) if "failed: GPU out" in line]
        assert "a fix   l log at the error   f findings   T reproduce" in lines[head + 1]


@pytest.mark.waits
async def test_a_failed_run_with_a_checkpoint_is_resumed_with_one_key(
    run: SampleRun, runs: Path, quick: list[bool]
) -> None:
    run.say("failed", reason="killed by SIGKILL at step 12 of 40")
    save_checkpoint(run.run, 10)
    async with running(runs, SMALL) as driver:
        await show(driver, run.run)
        await driver.shows("u resume from step 10 (2 steps again)")
        await driver.press("u")
        await arrive(driver, Confirm, "Resume grpo-night?", "repeats 2 logged steps")


@pytest.mark.waits
async def test_the_log_of_a_failed_run_opens_at_the_line_that_shows_why(
    unhealthy: SampleRun, runs: Path, quick: list[bool]
) -> None:
    unhealthy.print(*(b"more %d" % number for number in range(200)))
    async with running(runs, SMALL) as driver:
        await show(driver, unhealthy.run)
        await driver.shows("l log at the error")
        await driver.press("l")
        await arrive(driver, LogScreen, "CUDA out of memory")


@pytest.mark.waits
async def test_a_fix_is_chosen_from_the_screen_of_the_run(
    fixable: Run, runs: Path, quick: list[bool]
) -> None:
    async with running(runs) as driver:
        await show(driver, fixable)
        await driver.shows("a fix")
        await driver.press("a")
        await arrive(driver, Confirm, "Apply a fix to grpo-fail?")


@pytest.mark.sample(1)
@pytest.mark.waits
@pytest.mark.parametrize("size", [LARGE, SMALL])
async def test_a_stalled_run_says_who_waits_for_whom_and_promises_no_end(
    run: SampleRun, runs: Path, size: tuple[int, int]
) -> None:
    waits = "driver 7 waits in ray.get for WorkerDict 9, which is stopped (state T): kill -CONT 9"
    run.say("stalled", reason=f"no step for 60 s; the median step takes 1.8 s; {waits}")
    async with running(runs, size) as driver:
        screen = await driver.shows(
            "stalled: no step for 60 s", "driver 7 waits in", "WorkerDict 9"
        )
        assert "ETA" not in screen
        await driver.shows("kill -CONT 9", "f findings", "s stop")
        await driver.press("s")
        await driver.shows("stop now")
        assert "after the next checkpoint" not in driver.screen
