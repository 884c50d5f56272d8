"""Charts on a screen: what their keys do, and when they draw."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from engine.run.history.plot import Plot
from engine.run.history.train_log import Step
from grubrics_tui.drawing.prepare import on_axis
from grubrics_tui.drawing.spans import Row
from grubrics_tui.drawing.view import SMOOTHING
from grubrics_tui.model.history import History
from grubrics_tui.screens.charts import ChartScreen
from grubrics_tui.settings.actions import bindings
from grubrics_tui.settings.themes import DARK
from grubrics_tui.widgets.chart import Chart, line_of
from tests.grubrics_tui.pilots import screen_text

STEPS = 200


class CountingChart(Chart):
    """Knows how often it was drawn."""

    drawn = 0

    def draw(self, width: int, height: int) -> list[Row]:
        self.drawn += 1
        return super().draw(width, height)


class Charts(ChartScreen):
    """Two charts of one history, above each other."""

    BINDINGS = bindings("live")

    def __init__(self) -> None:
        super().__init__()
        self.history = History()

    def compose(self) -> ComposeResult:
        yield CountingChart(id="loss")
        yield CountingChart(id="norm")

    def grow(self, steps: int, first: int = 1) -> None:
        for number in range(first, first + steps):
            values = {"loss": 2.0 - number / 1000, "norm": float(number)}
            self.history.columns.add(Step(number, 1, 1e9 + 10 * number, values))
        for name in ("loss", "norm"):
            self.query_one(f"#{name}", Chart).show(partial(self._plot, name), self.history.version)

    def _plot(self, name: str) -> Plot:
        line = line_of(self.history, name, name, ink="series-2")
        return Plot((line,), clock=self.history.columns.times)

    def drawn(self) -> list[int]:
        return [chart.drawn for chart in self.query(CountingChart)]


class Frame(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.register_theme(DARK.for_textual)
        self.theme = DARK.name


@asynccontextmanager
async def charts(size: tuple[int, int] = (80, 24)) -> AsyncIterator[tuple[Charts, Pilot[None]]]:
    app, screen = Frame(), Charts()
    async with app.run_test(size=size) as pilot:
        await app.push_screen(screen)
        screen.grow(STEPS)
        await pilot.pause()
        yield screen, pilot


async def test_the_cursor_of_one_chart_is_read_out_by_all() -> None:
    async with charts() as (screen, pilot):
        await pilot.press("left")
        assert screen.view.cursor == STEPS
        await pilot.press("left", "left")
        step = screen.view.cursor
        assert step is not None and step < STEPS
        text = screen_text(pilot.app)
        assert f"step {step:.0f}  ━ loss {2 - step / 1000:.4g}" in text
        assert f"step {step:.0f}  ━ norm {step:.0f}" in text


async def test_home_and_end_reach_the_first_and_the_newest_step() -> None:
    async with charts() as (screen, pilot):
        await pilot.press("home")
        assert screen.view.cursor == 1
        await pilot.press("end")
        assert screen.view.cursor == STEPS


async def test_zoomed_in_the_cursor_walks_step_by_step() -> None:
    async with charts() as (screen, pilot):
        await pilot.press("end", *["plus"] * 4, "left", "left", "right")
        assert screen.view.cursor == STEPS - 1


async def test_panning_moves_what_is_shown_and_zero_shows_everything_again() -> None:
    async with charts() as (screen, pilot):
        await pilot.press("plus", "plus", "shift+left")
        window = screen.view.window
        assert window is not None and window.high < STEPS
        await pilot.press("full_stop", "0")
        assert not screen.view.is_zoomed


@pytest.mark.parametrize(("key", "said"), [("m", "smoothed 0.6"), ("y", "log"), ("Y", "y locked")])
async def test_a_changed_look_is_said_in_every_legend(key: str, said: str) -> None:
    async with charts() as (_, pilot):
        await pilot.press(key)
        assert screen_text(pilot.app).count(said) == 2


async def test_smoothing_goes_through_its_levels_and_back_to_none() -> None:
    async with charts() as (screen, pilot):
        seen = []
        for _ in SMOOTHING:
            await pilot.press("m")
            seen.append(screen.view.smoothing)
        assert seen == [*SMOOTHING[1:], 0.0]


async def test_another_x_axis_keeps_cursor_and_zoom_at_the_same_steps() -> None:
    async with charts() as (screen, pilot):
        await pilot.press("home", "plus", "x")
        assert screen.view.axis == "elapsed"
        assert screen.view.cursor == 0
        assert "0:00  ━ norm 1" in screen_text(pilot.app)
        await pilot.press("x", "x")
        assert screen.view.axis == "step" and screen.view.cursor == 1


async def test_a_locked_range_stays_until_it_is_let_go() -> None:
    async with charts() as (screen, pilot):
        await pilot.press("Y")
        screen.history.columns.add(Step(STEPS + 1, 1, 2e9, {"norm": 1e6}))
        screen.grow(0)
        await pilot.pause()
        assert "0.75M" not in screen_text(pilot.app)
        await pilot.press("Y")
        assert "0.75M" in screen_text(pilot.app)


async def test_the_table_shows_the_numbers_and_walks_over_steps() -> None:
    async with charts() as (screen, pilot):
        await pilot.press("t", "k", "k")
        assert screen.view.cursor == STEPS - 1
        assert f"{STEPS - 1}" in screen_text(pilot.app)
        await pilot.press("escape")


async def test_escape_takes_back_table_cursor_and_zoom_one_at_a_time() -> None:
    async with charts() as (screen, pilot):
        await pilot.press("plus", "left", "t")
        assert screen.clear_view() and not screen.view.table
        assert screen.clear_view() and screen.view.cursor is None
        assert screen.clear_view() and not screen.view.is_zoomed
        assert not screen.clear_view()
        await pilot.pause()


async def test_charts_draw_again_only_for_new_data_or_another_view() -> None:
    async with charts() as (screen, pilot):
        before = screen.drawn()
        screen.grow(0)
        await pilot.pause()
        assert screen.drawn() == before
        screen.grow(1, first=STEPS + 1)
        await pilot.pause()
        assert screen.drawn() == [count + 1 for count in before]


async def test_a_chart_that_is_not_on_the_screen_is_not_drawn() -> None:
    async with charts() as (screen, pilot):
        screen.query_one("#norm").display = False
        await pilot.pause()
        before = screen.drawn()[1]
        screen.grow(3, first=STEPS + 1)
        await pilot.press("m", "plus", "left")
        assert screen.drawn()[1] == before


async def test_a_chart_that_comes_later_shows_the_same_view() -> None:
    async with charts() as (screen, pilot):
        await pilot.press("m", "left")
        late = Chart()
        await screen.mount(late)
        await pilot.pause()
        assert late.view == screen.view


async def test_a_chart_without_data_says_why_below_the_name_of_its_line() -> None:
    async with charts() as (screen, pilot):
        empty = Plot((line_of(History(), "loss", "loss"),))
        screen.query_one("#loss", Chart).show(lambda: empty, "empty", "no step yet")
        await pilot.pause()
        assert "━ loss –" in screen_text(pilot.app)
        assert "no step yet" in screen_text(pilot.app)


@pytest.mark.parametrize("size", [(40, 10), (300, 100), (5, 3)])
async def test_every_key_works_at_any_size_and_without_data(size: tuple[int, int]) -> None:
    async with charts(size) as (screen, pilot):
        keys = [
            "left",
            "plus",
            "comma",
            "shift+right",
            "m",
            "y",
            "Y",
            "b",
            "x",
            "x",
            "x",
            "t",
            "j",
            "minus",
            "0",
        ]
        await pilot.press(*keys)
        screen.query_one("#loss", Chart).show(Plot, "empty", "nothing yet")
        await pilot.press(*keys, "home", "end", "right")


async def test_steps_without_times_have_no_time_axis() -> None:
    async with charts() as (screen, pilot):
        screen.history.columns.times.values[:] = 0.0
        await pilot.press("x")
        assert screen.view.axis == "step"
        assert np.all(screen.history.columns.times.values == 0)


def test_runs_side_by_side_stand_each_on_its_own_clock() -> None:
    lines = []
    for start in (1e9, 2e9):
        run = History()
        for number in (1, 2, 3):
            run.columns.add(Step(number, 1, start + number, {"loss": 1.0}))
        lines.append(replace(line_of(run, "loss", "loss"), clock=run.columns.times))
    plot = Plot(tuple(lines))
    assert [line.x[0] for line in on_axis(plot, "clock").lines] == [1e9 + 1, 2e9 + 1]
    assert [line.x[0] for line in on_axis(plot, "elapsed").lines] == [0, 0]
