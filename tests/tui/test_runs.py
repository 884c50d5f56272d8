"""The list of runs."""

from __future__ import annotations

from pathlib import Path

from pilots import SMALL, running
from sample_run import SampleRun


async def test_every_run_is_listed_with_state_step_and_reason(run: SampleRun, runs: Path) -> None:
    broken = SampleRun.create(runs, "broken")
    broken.grow(2)
    broken.say("failed", reason="exit code 1")
    async with running(runs) as driver:
        await driver.press("r")
        screen = await driver.shows("● running", "✗ failed", "exit code 1", "2 runs")
        assert "12/40" in screen
        assert "2/40" in screen


async def test_enter_opens_the_selected_run(run: SampleRun, runs: Path) -> None:
    other = SampleRun.create(runs, "other")
    other.grow(5)
    other.say("finished")
    async with running(runs, SMALL) as driver:
        await driver.press("r")
        await driver.shows("other", "grpo-night")
        await driver.press("j", "k", "enter")
        await driver.shows("1 reward", "step ")


async def test_a_run_that_appears_is_listed_without_asking(run: SampleRun, runs: Path) -> None:
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("1 runs")
        SampleRun.create(runs, "newcomer")
        await driver.shows("newcomer", "2 runs")


async def test_an_empty_folder_says_so(runs: Path) -> None:
    async with running(runs) as driver:
        await driver.press("r")
        await driver.shows("no runs in")


async def test_a_folder_that_cannot_be_read_is_said_and_the_screen_lives(tmp_path: Path) -> None:
    not_a_folder = tmp_path / "runs"
    not_a_folder.write_text("")
    async with running(not_a_folder) as driver:
        await driver.press("r")
        await driver.shows("could not be read", "NotADirectoryError")
        await driver.press("c")
        await driver.shows("before the launch")
