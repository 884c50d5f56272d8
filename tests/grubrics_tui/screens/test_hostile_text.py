"""Whatever a run's files say, the screen shows it as text: nothing of it acts on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from textual.strip import Strip
from textual.widget import Widget

from engine.logs.formats.external_run import open_external
from grubrics_tui.screens.live.screen import LiveScreen
from grubrics_tui.screens.navigation import ShowNotice
from grubrics_tui.settings.layout import default_panels
from grubrics_tui.settings.settings import Loaded, Settings
from tests.grubrics_tui.every_screen import WAYS, settled
from tests.grubrics_tui.hostile_world import external_logs, make_hostile_world
from tests.grubrics_tui.pilots import LARGE, SMALL, Driver, running
from tests.grubrics_tui.world import RUNS, World, standing_clock
from tests.hostile_text import ALL, harmful, without_colors

pytestmark = pytest.mark.waits

SIGNS = ("[red]", "[@click=")
"""Markup that was read as markup is gone from the text."""

FORMATS = ("verl", "verl-jsonl", "hf-state")

WITHOUT_DATA = frozenset({"help", "orphans", "sources", "start", "ask-steps", "columns"})
"""Screens that show no text of a run."""
SHORTENED = frozenset({"compare", "choose-metric"})
"""Screens whose labels are shortened at 80x24; see ``test_compare``."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with standing_clock(tmp_path):
        yield make_hostile_world()


TERMINAL = Console(color_system="truecolor", force_terminal=True)


def faults(widget: Widget, strips: list[Strip]) -> Iterator[str]:
    """What a widget writes that a terminal would obey, or that can be clicked."""
    written = without_colors("".join(strip.render(TERMINAL) for strip in strips))
    if found := harmful(written):
        yield f"{widget} writes {sorted(found)}"
    for style in {segment.style for strip in strips for segment in strip if segment.style}:
        if style.link or any(key.startswith("@") for key in style.meta):
            yield f"{widget} can be clicked: {style.link} {style.meta}"


def assert_inert(driver: Driver) -> str:
    """Nothing on the screen in front is harmful; returns all of its text."""
    drawn = {  # what is scrolled out of sight included
        widget: widget.render_lines(widget.size.region)
        for widget in driver.app.screen.walk_children(Widget, with_self=True)
        if widget.size and widget.is_on_screen
    }
    assert not [fault for widget, strips in drawn.items() for fault in faults(widget, strips)]
    assert not harmful(driver.screen, allowed="\n")
    return "".join(strip.text for strips in drawn.values() for strip in strips)


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", WAYS)
async def test_every_screen_shows_it_inert(name: str, world: World) -> None:
    async with running(RUNS, LARGE, world.config, overrides=world.overrides) as driver:
        await WAYS[name].go(driver, world)
        for size in (LARGE, SMALL):
            await driver.resize(size)
            await settled(driver)
            text = assert_inert(driver)
            is_short = size == SMALL and name in SHORTENED
            has_data = name not in WITHOUT_DATA and not is_short
            assert not has_data or any(sign in text for sign in SIGNS), driver.screen


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["grpo", "sft"])
async def test_every_panel_shows_it_inert(kind: str, world: World) -> None:
    run = world.warmup if kind == "sft" else world.night
    async with running(RUNS, LARGE, watched=run) as driver:
        await settled(driver)
        await driver.press("z")
        for place in range(len(default_panels(kind))):
            await driver.press(str(place + 1))
            await settled(driver)
            assert_inert(driver)
            await driver.press("t", "left")
            assert_inert(driver)
            await driver.press("t")


async def test_a_metric_that_is_found_and_pinned_is_text(world: World) -> None:
    async with running(RUNS, LARGE, watched=world.night) as driver:
        await settled(driver)
        await driver.press("slash", *"red")
        await driver.shows("[red]no color[/red]")
        await driver.press("tab", *("down", "tab") * 4)
        assert_inert(driver)
        await driver.press("enter", "z", "left")
        await driver.shows("[red]no color", "pinned")
        assert_inert(driver)


@pytest.mark.thorough
async def test_a_log_is_searched_and_filtered_for_it(world: World) -> None:
    async with running(RUNS, LARGE, log=world.log) as driver:
        await settled(driver)
        for key in ("slash", "ampersand"):
            await driver.press(key, *r"\[red\]no.*\[@click", "enter")
            await driver.shows(r"\[red\]no.*\[@click", "line")
            await settled(driver)
            assert_inert(driver)
        for key in ("w", "f", "right", "g", "G", "e"):
            await driver.press(key)
            assert_inert(driver)


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", FORMATS)
async def test_what_another_trainer_wrote_is_text(kind: str, world: World) -> None:
    async with running(RUNS, watched=open_external(external_logs()[kind], kind)) as driver:
        await driver.until(lambda: isinstance(driver.app.screen, LiveScreen))
        await settled(driver)
        assert_inert(driver)
        await driver.press("slash", *"red")
        await settled(driver)
        assert_inert(driver)
        await driver.press("enter", "l")
        await settled(driver)
        assert_inert(driver)


async def test_what_the_app_tells_is_text(world: World) -> None:
    loaded = Loaded(Settings(), {}, (ALL,))
    async with running(RUNS, LARGE, watched=world.night, loaded=loaded) as driver:
        await settled(driver)
        driver.app.post_message(ShowNotice(ALL, failed=True))
        driver.app.screen.notify(ALL, title=ALL)
        await driver.shows("[red]no color[/red] [@click=app.quit]no click[/]")
        assert_inert(driver)


async def test_the_farewell_to_a_run_is_text(
    world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    async with running(RUNS, LARGE, watched=world.night) as driver:
        await settled(driver)
        await driver.press("q")
        await driver.until(lambda: not driver.app.is_running)
    assert driver.app.return_code == 0
