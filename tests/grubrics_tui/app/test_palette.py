"""The command palette offers what the screen can do now: each command once, with its key."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.command import CommandPalette

from grubrics_tui.app.base_app import screen_name
from grubrics_tui.screens.dialogs.confirm import Confirm
from grubrics_tui.screens.help import HelpScreen
from grubrics_tui.settings.settings import Loaded, Settings
from tests.grubrics_tui.every_screen import WAYS, arrive
from tests.grubrics_tui.pilots import Driver, running
from tests.grubrics_tui.sample_run import SampleRun
from tests.grubrics_tui.world import RUNS, make_world, standing_clock

pytestmark = pytest.mark.waits


async def offered(driver: Driver) -> list[str]:
    """The lines of the open palette."""
    await driver.press("ctrl+p")
    await driver.until(lambda: isinstance(driver.app.screen, CommandPalette))
    await driver.shows("Choose the color theme")
    options = driver.app.screen.query("CommandList").first().options  # type: ignore[attr-defined]
    return [str(option.prompt) for option in options]


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["home", "live-failed", "runs", "log", "compare", "preflight"])
async def test_each_command_is_listed_once_with_its_key(name: str, tmp_path: Path) -> None:
    with standing_clock(tmp_path):
        world = make_world()
        async with running(RUNS, (120, 100), world.config) as driver:
            await WAYS[name].go(driver, world)
            lines = await offered(driver)
    texts = [line[12:] for line in lines]
    assert len(set(texts)) == len(texts)
    assert all(line[:12].strip() for line in lines[:-1])


async def test_commands_of_the_screen_come_before_those_of_all_screens(
    run: SampleRun, runs: Path
) -> None:
    async with running(runs, (120, 100)) as driver:
        await driver.shows("step 12/40")
        lines = await offered(driver)
    order = [index for index, line in enumerate(lines) if line.startswith(("s ", "r ", "q "))]
    assert [lines[index][0] for index in order] == ["s", "r", "q"]


async def test_only_what_applies_to_the_run_is_offered(run: SampleRun, runs: Path) -> None:
    async with running(runs, (120, 100)) as driver:
        await driver.shows("step 12/40")
        texts = "\n".join(await offered(driver))
    assert "Stop the run" in texts
    assert "Resume" not in texts and "Run summary" not in texts


async def test_read_only_offers_nothing_that_changes_a_run(run: SampleRun, runs: Path) -> None:
    loaded = Loaded(Settings(read_only=True), {})
    async with running(runs, (120, 100), loaded=loaded) as driver:
        await driver.shows("step 12/40")
        assert "Stop the run" not in "\n".join(await offered(driver))


async def test_a_typed_part_finds_a_command_and_enter_runs_it(run: SampleRun, runs: Path) -> None:
    async with running(runs, (120, 100)) as driver:
        await driver.shows("step 12/40")
        await offered(driver)
        await driver.press(*"stop the run")
        await driver.until(lambda: "Chart" not in driver.screen)
        await driver.press("enter")
        await arrive(driver, Confirm, "stop now")


@pytest.mark.thorough
async def test_a_key_of_the_settings_is_shown(run: SampleRun, runs: Path) -> None:
    loaded = Loaded(Settings(keys={"stop": "S"}), {})
    async with running(runs, (120, 100), loaded=loaded) as driver:
        await driver.shows("step 12/40")
        assert any(line.startswith("S  ") and "Stop" in line for line in await offered(driver))


async def test_the_footer_and_the_help_name_the_key(run: SampleRun, runs: Path) -> None:
    async with running(runs, (160, 40)) as driver:
        await driver.shows("step 12/40", "ctrl+p commands")
        await driver.press("question_mark")
        await arrive(driver, HelpScreen, "ctrl+p commands")
        assert screen_name(driver.app.screen) == "help"
