"""A run that finished and is unhealthy looks so, wherever its end is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.base import jsonl
from grubrics_tui.commands import runs as runs_command
from grubrics_tui.screens.live.banner import Banner
from grubrics_tui.screens.navigation import OpenRun, OpenSummary
from grubrics_tui.screens.runs.screen import RunsScreen
from tests.grubrics_tui.commands.test_show import told
from tests.grubrics_tui.pilots import LARGE, SMALL, running
from tests.grubrics_tui.sample_run import SampleRun

TITLE = "train/loss is NaN or infinite"
UNHEALTHY = f"unhealthy: {TITLE} since step 11"


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


async def test_the_list_marks_an_unhealthy_run_and_only_that_one(
    runs: Path, hot: SampleRun
) -> None:
    finish(runs, "fine")
    async with running(runs, SMALL) as driver:
        driver.app.push_screen(RunsScreen(runs))
        screen = await driver.shows("! finished", "unhealthy")
        (row,) = [line for line in screen.splitlines() if " fine " in line and "20/20" in line]
        assert "✓ finished" in row and "unhealthy" not in row


async def test_the_list_marks_a_run_that_goes_on_although_its_numbers_are_worthless(
    runs: Path, hot: SampleRun
) -> None:
    hot.say("running")
    assert UNHEALTHY in told("runs", runs=runs)
    async with running(runs, SMALL) as driver:
        driver.app.push_screen(RunsScreen(runs))
        await driver.shows("! running", "unhealthy")
        await driver.until(lambda: "● running" not in driver.screen)


async def test_the_verdict_names_what_made_a_finished_run_unhealthy(
    runs: Path, hot: SampleRun
) -> None:
    async with running(runs) as driver:
        driver.app.post_message(OpenSummary(hot.run))
        await driver.shows("! finished, unhealthy", "doctor", TITLE)


async def test_the_first_line_of_its_own_screen_is_the_finding_in_amber(
    runs: Path, hot: SampleRun
) -> None:
    async with running(runs) as driver:
        driver.app.post_message(OpenRun(hot.run))
        await driver.shows(f"! finished, {UNHEALTHY}", "f findings   v summary")
        banner = driver.app.screen.query_one(Banner)
        assert banner.has_class("-worry") and not banner.has_class("-finished")
        assert "✓ finished" not in driver.screen


async def test_the_banner_of_an_unhealthy_run_is_cut_to_a_smaller_terminal(
    runs: Path, hot: SampleRun
) -> None:
    async with running(runs, LARGE) as driver:
        driver.app.post_message(OpenRun(hot.run))
        await driver.shows(f"! finished, {UNHEALTHY}", "f findings")
        await driver.resize((60, 24))
        banner = driver.app.screen.query_one(Banner)
        await driver.until(lambda: banner.size.height == 3)
        lines = driver.screen.splitlines()
        (head,) = [row for row, line in enumerate(lines) if "! finished, unheal" in line]
        assert "f findings" in lines[head + 2]


async def test_a_healthy_run_is_green_once_it_was_examined(runs: Path) -> None:
    sample = finish(runs, "fine")
    async with running(runs) as driver:
        driver.app.post_message(OpenRun(sample.run))
        await driver.shows("✓ finished")
        await driver.until(lambda: driver.app.screen.query_one(Banner).has_class("-finished"))


def test_the_list_of_runs_says_it_in_words_and_as_data(runs: Path, hot: SampleRun) -> None:
    finish(runs, "fine")
    lines = told("runs", runs=runs).splitlines()[1:]
    assert [line.endswith(UNHEALTHY) for line in lines] == ["hot" in x for x in lines]
    found = {
        one["id"]: one["health"] for one in json.loads(told("runs", "--json", runs=runs))["runs"]
    }
    assert found["fine"] == {"state": "healthy", "finding": None}
    assert found["hot"]["state"] == "unhealthy"
    assert found["hot"]["finding"] == {
        "id": "loss_nan", "severity": "critical", "title": TITLE, "onset_step": 11,
    }  # fmt: skip


def test_a_filter_finds_unhealthy_runs(runs: Path, hot: SampleRun) -> None:
    finish(runs, "fine")
    listed = json.loads(told("runs", "--filter", "unhealthy", "--json", runs=runs))["runs"]
    assert [run["id"] for run in listed] == ["hot"]


def test_a_verdict_is_worked_out_once_and_again_when_the_files_change(
    runs: Path, hot: SampleRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    told("runs", runs=runs)
    with monkeypatch.context() as patch:
        patch.setattr("engine.doctor.health.health_of", lambda *_: pytest.fail("examined again"))
        assert UNHEALTHY in told("runs", runs=runs)
    step = {"v": 1, "step": 21, "attempt": 1, "t": 1.0, "metrics": {"train/loss": 0.5}}
    jsonl.append(hot.run.train_log, step)
    monkeypatch.setattr("engine.doctor.health.health_of", lambda *_: None)
    assert UNHEALTHY not in told("runs", runs=runs)


def test_runs_that_nobody_has_examined_yet_are_not_called_healthy(
    runs: Path, hot: SampleRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs_command, "_EXAMINE_S", 0.0)
    assert "not examined" in told("runs", runs=runs)


def test_show_says_it_in_words_and_as_data(runs: Path, hot: SampleRun) -> None:
    assert f"finished, {UNHEALTHY}" in told("show", "hot", runs=runs)
    found = json.loads(told("show", "hot", "--json", runs=runs))
    assert (found["unhealthy"]["id"], found["unhealthy"]["severity"]) == ("loss_nan", "critical")
    assert found["health"] == {"state": "unhealthy", "finding": found["unhealthy"]}


def test_compare_says_it_of_the_run_in_question(runs: Path, hot: SampleRun) -> None:
    finish(runs, "fine")
    assert UNHEALTHY in told("compare", "fine", "hot", runs=runs)
    found = json.loads(told("compare", "fine", "hot", "--json", runs=runs))["health"]
    assert (found["fine"]["state"], found["hot"]["state"]) == ("healthy", "unhealthy")


def test_a_healthy_run_has_nothing_to_say(runs: Path) -> None:
    finish(runs, "fine")
    assert json.loads(told("show", "fine", "--json", runs=runs))["unhealthy"] is None
    assert "unhealthy" not in told("show", "fine", runs=runs)


def test_the_draft_of_the_experiment_log_does_not_call_it_finished_alone(
    runs: Path, hot: SampleRun
) -> None:
    text = told("entry", "hot", runs=runs)
    assert f"finished, {UNHEALTHY}" in text
    assert f"doctor: {TITLE}" in text


def test_a_run_that_failed_says_so_itself(runs: Path, hot: SampleRun) -> None:
    hot.say("failed", reason="exit code 1 at step 20 of 20")
    assert json.loads(told("show", "hot", "--json", runs=runs))["health"] is None
