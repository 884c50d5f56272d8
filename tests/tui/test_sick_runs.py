"""A run that finished and is sick looks so, wherever its end is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pilots import SMALL, running
from sample_run import SampleRun
from test_show_command import told

from engine import jsonl
from grubrics_tui.navigation import OpenVerdict
from grubrics_tui.screens.runs import RunsScreen

SICK = "sick: loss_nan"


def finish(runs: Path, name: str, *, loss_from: float | None = 0.5) -> SampleRun:
    """A finished SFT run; ``loss_from`` None: its loss is NaN from step 11 on."""
    sample = SampleRun.create(runs, name, kind="sft", total=20)
    sample.grow(10 if loss_from is None else 20)
    for step in range(sample.step + 1, 21):
        values = {"train/loss": loss_from, "train/grad_norm": loss_from}
        moment = sample.started + step * 14
        record = {"v": 1, "step": step, "attempt": 1, "t": moment, "metrics": values}
        jsonl.append(sample.run.train_log, record)
    sample.step = 20
    sample.say("finished")
    return sample


@pytest.fixture
def hot(runs: Path) -> SampleRun:
    return finish(runs, "hot", loss_from=None)


async def test_the_list_marks_a_sick_run_and_only_that_one(runs: Path, hot: SampleRun) -> None:
    finish(runs, "fine")
    async with running(runs, SMALL) as driver:
        driver.app.push_screen(RunsScreen(runs))
        screen = await driver.shows("! finished", f"{SICK} since step 11")
        (row,) = [line for line in screen.splitlines() if " fine " in line and "20/20" in line]
        assert "✓ finished" in row and "sick" not in row


async def test_the_verdict_names_what_made_a_finished_run_sick(runs: Path, hot: SampleRun) -> None:
    async with running(runs) as driver:
        driver.app.post_message(OpenVerdict(hot.run))
        await driver.shows("! finished, " + SICK, "doctor", "train/loss is NaN or infinite")


def test_show_says_it_in_words_and_as_data(runs: Path, hot: SampleRun) -> None:
    assert f"finished, {SICK} since step 11" in told("show", "hot", runs=runs)
    found = json.loads(told("show", "hot", "--json", runs=runs))
    assert (found["sick"]["id"], found["sick"]["severity"]) == ("loss_nan", "critical")


def test_a_healthy_run_has_nothing_to_say(runs: Path) -> None:
    finish(runs, "fine")
    assert json.loads(told("show", "fine", "--json", runs=runs))["sick"] is None
    assert "sick" not in told("show", "fine", runs=runs)


def test_the_draft_of_the_experiment_log_does_not_call_it_finished_alone(
    runs: Path, hot: SampleRun
) -> None:
    text = told("log", "hot", runs=runs)
    assert f"finished, {SICK} since step 11" in text
    assert "doctor: train/loss is NaN or infinite" in text


def test_a_run_that_failed_says_so_itself(runs: Path, hot: SampleRun) -> None:
    hot.say("failed", reason="exit code 1 at step 20 of 20")
    assert json.loads(told("show", "hot", "--json", runs=runs))["sick"] is None
