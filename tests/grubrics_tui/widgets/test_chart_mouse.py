"""The mouse on charts and panels."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events
from textual.pilot import Pilot

from grubrics_tui.screens.live.panel_grid import PanelGrid, PanelTabs
from grubrics_tui.screens.live.panels import StackedBar
from grubrics_tui.screens.live.screen import LiveScreen
from grubrics_tui.widgets.chart import Chart
from tests.grubrics_tui.pilots import SMALL, Driver, running
from tests.grubrics_tui.sample_run import SampleRun
from tests.grubrics_tui.widgets.test_chart import STEPS, Charts, charts

MIDDLE = (40, 6)


def loss(screen: Charts) -> Chart:
    return screen.query_one("#loss", Chart)


async def wheel(
    pilot: Pilot[None], chart: Chart, kind: type[events.MouseEvent], *, shift: bool = False
) -> None:
    """A notch with the pointer in the middle of the chart."""
    x, y = chart.region.offset + MIDDLE
    chart.post_message(
        kind(chart, *MIDDLE, 0, 0, 0, shift, meta=False, ctrl=False, screen_x=x, screen_y=y)
    )
    await pilot.pause()
    await pilot.pause()


async def drag(pilot: Pilot[None], chart: Chart, start: int, end: int) -> None:
    await pilot.mouse_down(chart, offset=(start, 5))
    await pilot.hover(chart, offset=(end, 5))
    await pilot.mouse_up(chart, offset=(end, 5))
    await pilot.pause()


async def test_a_click_sets_the_cursor_of_all_charts_at_the_nearest_step() -> None:
    async with charts() as (screen, pilot):
        await pilot.click(loss(screen), offset=MIDDLE)
        cursor = screen.view.cursor
        assert cursor is not None and cursor == round(cursor)
        assert abs(cursor - STEPS / 2) < STEPS / 8
        assert screen.query_one("#norm", Chart).view.cursor == cursor


async def test_a_click_at_either_end_is_the_first_or_the_newest_step() -> None:
    async with charts() as (screen, pilot):
        await pilot.click(loss(screen), offset=(0, 5))
        assert screen.view.cursor == 1
        await pilot.click(loss(screen), offset=(79, 5))
        assert screen.view.cursor == STEPS


@pytest.mark.parametrize(("start", "end"), [(30, 50), (50, 30)])
async def test_a_drag_zooms_into_the_range_in_either_direction(start: int, end: int) -> None:
    async with charts() as (screen, pilot):
        chart = loss(screen)
        low, high = chart.x_at(30), chart.x_at(50)
        await drag(pilot, chart, start, end)
        window = screen.view.window
        assert window is not None and (window.low, window.high) == (low, high)


async def test_a_drag_to_the_end_follows_new_steps() -> None:
    async with charts() as (screen, pilot):
        await drag(pilot, loss(screen), 40, 79)
        assert screen.view.window is None and screen.view.tail is not None


async def test_the_wheel_zooms_about_the_pointer() -> None:
    async with charts() as (screen, pilot):
        chart = loss(screen)
        before = chart.x_at(MIDDLE[0])
        await wheel(pilot, chart, events.MouseScrollUp)
        window = screen.view.window
        assert window is not None and window.size < 0.85 * STEPS
        assert chart.x_at(MIDDLE[0]) == pytest.approx(before, abs=STEPS / 40)
        await wheel(pilot, chart, events.MouseScrollDown)
        assert not screen.view.is_zoomed


@pytest.mark.parametrize(
    ("kind", "shift"), [(events.MouseScrollUp, True), (events.MouseScrollLeft, False)]
)
async def test_the_wheel_pans_with_shift_or_sideways(
    kind: type[events.MouseEvent], shift: bool
) -> None:
    async with charts() as (screen, pilot):
        chart = loss(screen)
        await wheel(pilot, chart, events.MouseScrollUp)
        before = screen.view.window
        await wheel(pilot, chart, kind, shift=shift)
        after = screen.view.window
        assert before is not None and after is not None
        assert after.low < before.low and after.size == pytest.approx(before.size)


@pytest.mark.parametrize("reset", [{"button": 3}, {"times": 2}])
async def test_a_right_or_double_click_shows_everything_again(reset: dict[str, int]) -> None:
    async with charts() as (screen, pilot):
        await drag(pilot, loss(screen), 30, 50)
        assert screen.view.is_zoomed
        await pilot.click(loss(screen), offset=MIDDLE, **reset)  # type: ignore[arg-type]
        assert not screen.view.is_zoomed and screen.view.cursor is None


async def test_the_table_of_values_has_no_cursor_to_click() -> None:
    async with charts() as (screen, pilot):
        await pilot.press("t")
        await pilot.click(loss(screen), offset=MIDDLE)
        assert screen.view.cursor is None


def live(driver: Driver) -> LiveScreen:
    assert isinstance(driver.app.screen, LiveScreen)
    return driver.app.screen


@pytest.mark.waits
async def test_a_click_selects_a_panel_and_a_double_click_zooms_it(
    run: SampleRun, runs: Path
) -> None:
    async with running(runs) as driver:
        await driver.shows("step 12/40", "2 judge")
        grid = live(driver).query_one(PanelGrid)
        panel = grid.ordered[1]
        await driver.click(panel, (3, 0))
        await driver.until(lambda: grid.current is panel)
        await driver.double_click(panel, (3, 0))
        await driver.until(lambda: live(driver).zoomed)
        await driver.double_click(panel, (3, 0))
        await driver.until(lambda: not live(driver).zoomed)


@pytest.mark.waits
async def test_a_click_on_the_name_of_a_panel_shows_it(run: SampleRun, runs: Path) -> None:
    async with running(runs, SMALL) as driver:
        screen = await driver.shows("step 12/40", "[1 reward]", "2 judge")
        line = next(line for line in screen.splitlines() if "[1 reward]" in line)
        tabs = live(driver).query_one(PanelTabs)
        column = line.index("2 judge")
        await driver.click(tabs, (column - tabs.region.x, 0))
        await driver.shows("[2 judge]")


@pytest.mark.waits
async def test_a_click_on_the_bars_of_the_step_times_sets_the_cursor(
    run: SampleRun, runs: Path
) -> None:
    async with running(runs, SMALL) as driver:
        await driver.shows("step 12/40")
        await driver.press("3")
        await driver.shows("[3 step time]", "gen")
        bars = live(driver).query_one(StackedBar)
        await driver.click(bars, (bars.size.width - 1, bars.size.height - 2))
        await driver.until(lambda: live(driver).view.cursor == 12)
