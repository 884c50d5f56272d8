"""The first time a screen is opened, one line names its keys; after that, never again."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.geometry import Region
from textual.screen import Screen

from grubrics_tui.screens.base import HintLine
from grubrics_tui.screens.navigation import OpenCompare, OpenLog, OpenRollouts
from grubrics_tui.settings.actions import actions_of
from grubrics_tui.settings.comparison_marks import ComparisonMarks
from grubrics_tui.settings.settings import Loaded, Settings
from grubrics_tui.settings.state_files import HINTS, HintFile, hint
from tests.grubrics_tui.pilots import LARGE, SMALL, Driver, running
from tests.grubrics_tui.sample_run import SampleRun

pytestmark = pytest.mark.waits


@pytest.fixture(autouse=True)
def nothing_seen_yet(own_settings: None) -> None:
    HintFile.default_path().unlink()


def hinted(driver: Driver) -> bool:
    return bool(driver.app.screen.query(HintLine))


def regions(screen: Screen[object]) -> list[tuple[str, Region]]:
    """Of everything else that is shown."""
    others = [one for one in screen.query("*") if not isinstance(one, HintLine)]
    return [(str(one), one.region) for one in others if one.is_on_screen]


@pytest.mark.parametrize("screen", HINTS)
def test_a_hint_names_two_or_three_keys_that_the_screen_has_and_the_help(screen: str) -> None:
    names = {action.name for action in actions_of(screen)}
    assert {name for name, _ in HINTS[screen]} <= names
    assert 2 <= len(HINTS[screen]) <= 3
    assert hint(screen)[-1] == ("?", "all keys")
    assert len(str(HintLine(hint(screen)).content)) <= 80 - 4


def test_a_hint_has_the_keys_that_a_person_has_chosen() -> None:
    assert hint("log", {"search": "F"})[0] == ("F", "search")


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", [LARGE, SMALL])
async def test_it_stands_above_the_footer_and_covers_nothing(
    run: SampleRun, runs: Path, size: tuple[int, int]
) -> None:
    async with running(runs, size) as driver:
        await driver.shows("step 12/40", "Keys:", "/ find a metric", "? all keys", "? help")
        assert "Keys:" in driver.screen.splitlines()[-2]
        line = driver.app.screen.query_one(HintLine).region
        assert line.height == 1
        covered = [name for name, region in regions(driver.app.screen) if line.overlaps(region)]
        assert not covered
        await driver.press("m")
        await driver.until(lambda: not hinted(driver), "no hint")


async def test_the_first_key_takes_it_away_for_good_and_acts(run: SampleRun, runs: Path) -> None:
    async with running(runs, LARGE) as driver:
        await driver.shows("Keys:")
        await driver.press("z")
        await driver.until(lambda: not hinted(driver), "no hint")
        await driver.until(lambda: HintFile().was_dismissed("live"), "a note of it")
        assert driver.app.screen.zoomed  # type: ignore[attr-defined]
    async with running(runs, LARGE) as driver:
        await driver.shows("step 12/40")
        assert not hinted(driver)


async def test_the_first_escape_leaves_the_log_hint_or_none(run: SampleRun, runs: Path) -> None:
    HintFile().dismiss("live")
    async with running(runs, LARGE) as driver:
        await driver.shows("step 12/40")
        await driver.press("l")
        await driver.shows("Keys:", "search")
        await driver.press("escape")
        await driver.shows("step 12/40", "1 reward")
        await driver.until(lambda: HintFile().was_dismissed("log"), "a note of it")


@pytest.mark.thorough
async def test_every_hinted_screen_has_one(run: SampleRun, runs: Path) -> None:
    other = SampleRun.create(runs, "grpo-other")
    other.grow(2)
    marks = ComparisonMarks()
    for name in ("grpo-night", "grpo-other"):
        marks.toggle(name)
    async with running(runs, SMALL) as driver:
        await driver.shows("grpo-", "Keys:", "log view")
        driver.app.post_message(OpenLog(run.run.attempt(1).console))
        await driver.shows("go to a time")
        driver.app.post_message(OpenRollouts(run.run))
        await driver.shows("diff")
        driver.app.post_message(OpenCompare([run.run, other.run], marks))
        await driver.shows("other metric")
        await driver.press("r")
        await driver.shows("compare selected")


@pytest.mark.parametrize("settings", [Settings(hints=False), Settings(read_only=True)])
async def test_it_can_be_turned_off_and_a_read_only_screen_has_none(
    run: SampleRun, runs: Path, settings: Settings
) -> None:
    async with running(runs, LARGE, loaded=Loaded(settings, {})) as driver:
        await driver.shows("step 12/40")
        assert not hinted(driver)


@pytest.mark.thorough
async def test_a_torn_file_and_one_that_cannot_be_written_do_no_harm(
    run: SampleRun, runs: Path
) -> None:
    HintFile.default_path().write_text('{"seen": [1, nul')
    async with running(runs, LARGE) as driver:
        await driver.shows("Keys:")
        HintFile.default_path().unlink()
        HintFile.default_path().mkdir()
        await driver.press("m")
        await driver.until(lambda: not hinted(driver), "no hint")
        await driver.shows("step 12/40")
