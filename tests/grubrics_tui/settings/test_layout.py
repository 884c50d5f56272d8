"""Which panels are shown, in which order, and that a person's choice is kept."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual.app import App, ComposeResult

from engine.base import jsonl
from engine.run.kinds import KINDS
from grubrics_tui.screens.live.panel_grid import PanelGrid, window
from grubrics_tui.screens.live.panels import PANELS
from grubrics_tui.settings.layout import (
    LayoutFile,
    Slot,
    default_panels,
    first_layout,
    layout_path,
    room_for,
)
from grubrics_tui.widgets.panel import Panel
from tests.grubrics_tui.pilots import LARGE, SMALL, running
from tests.grubrics_tui.sample_run import SampleRun

pytestmark = pytest.mark.waits

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["slots", "panel", "metrics", "hidden", "kinds", "grpo", "current"]),
            inner,
        )
    ),
)
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("move"), st.sampled_from([-1, 1])),
        st.tuples(st.just("turn"), st.integers(-9, 9)),
        st.tuples(st.just("away"), st.just(0)),
        st.tuples(st.just("pin"), st.integers(0, 3)),
    ),
    max_size=25,
)


def test_every_panel_of_a_layout_exists() -> None:
    assert {name for kind in KINDS.values() for name in kind.panels} == set(PANELS)


@given(MOVES)
def test_something_is_always_shown_and_current(moves: list[tuple[str, int]]) -> None:
    layout = first_layout("grpo")
    for what, number in moves:
        if what == "move":
            layout = layout.move(number)
        elif what == "turn":
            layout = layout.select_next(number)
        elif what == "away":
            layout = layout.hide()
        else:
            layout = layout.with_slot(Slot(metrics=(f"m{number}",)))
        assert layout.current in layout.names
        assert len(layout.names) == len(set(layout.names))
        assert {s.panel for s in layout.slots if not s.is_pin} == set(default_panels("grpo"))


class FirstFrame(PanelGrid):
    """Keeps which panels could be seen before the grid had a size to arrange them in."""

    seen: tuple[str, ...] | None = None

    def on_resize(self, event: events.Resize) -> None:
        if self.seen is None:
            panels = [panel for panel in self.query_children(Panel) if panel.display]
            self.seen = tuple(str(panel.border_title) for panel in panels)


@pytest.mark.parametrize("size", [LARGE, SMALL])
async def test_no_panel_is_seen_before_it_has_its_place(size: tuple[int, int]) -> None:
    class Alone(App[None]):
        def get_theme_variable_defaults(self) -> dict[str, str]:
            return dict.fromkeys(("line", "line-focus", "quiet"), "white")

        def compose(self) -> ComposeResult:
            yield FirstFrame(first_layout("grpo"))

    app = Alone()
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        grid = app.query_one(FirstFrame)
        assert grid.seen == ()
        assert [panel.display for panel in grid.ordered].count(True) >= 1


def test_a_layout_is_kept_per_kind_of_run(tmp_path: Path) -> None:
    file = LayoutFile(tmp_path / "deep" / "layout.json")
    changed = first_layout("grpo").select_next(1).hide().with_slot(Slot(metrics=("a/b", "c")))
    file.save("grpo", changed)
    assert file.load("grpo") == changed
    assert file.load("sft") == first_layout("sft")


def test_two_screens_keep_each_other_s_choice(tmp_path: Path) -> None:
    path = tmp_path / "layout.json"
    one, other = LayoutFile(path), LayoutFile(path)
    mine, theirs = one.load("grpo"), other.load("grpo")
    pinned = mine.with_slot(Slot(metrics=("actor/lr",)))
    one.save("grpo", pinned)
    other.save("sft", other.load("sft").select_next(1))
    other.save("grpo", theirs.select_next(2))  # It knows nothing of the pin and takes none away.
    seen = LayoutFile(path).load("grpo")
    assert (seen.slots, seen.current) == (pinned.slots, theirs.select_next(2).current)
    assert LayoutFile(path).load("sft").current == first_layout("sft").select_next(1).current


def test_of_two_changes_of_the_same_panels_the_last_one_counts(tmp_path: Path) -> None:
    path = tmp_path / "layout.json"
    one, other = LayoutFile(path), LayoutFile(path)
    mine, theirs = one.load("grpo"), other.load("grpo")
    one.save("grpo", mine.with_slot(Slot(metrics=("actor/lr",))))
    other.save("grpo", theirs.hide())
    assert LayoutFile(path).load("grpo") == theirs.hide()


def test_many_writers_at_once_lose_no_kind_of_run(tmp_path: Path) -> None:
    path, kinds = tmp_path / "layout.json", [f"kind{number}" for number in range(12)]

    def keep(kind: str) -> None:
        LayoutFile(path).save(kind, first_layout("grpo").select_next(1))

    with ThreadPoolExecutor(len(kinds)) as pool:
        list(pool.map(keep, kinds))
    written = jsonl.read_json(path)
    assert written is not None and set(written["kinds"]) == set(kinds)


def test_an_edited_settings_file_starts_the_layout_anew(tmp_path: Path) -> None:
    file = LayoutFile(tmp_path / "layout.json")
    file.save("grpo", first_layout("grpo", ("judge",)).select_next(1), ("judge",))
    assert file.load("grpo", ("reward", "a/b")).names == ["reward", "a/b"]


@given(JSON)
def test_any_file_gives_a_layout(content: object) -> None:
    path = layout_path({"XDG_STATE_HOME": "/nowhere"})
    file = LayoutFile(path)
    file._kinds = lambda: {"grpo": content}  # type: ignore[method-assign]
    assert file.load("grpo").shown


@given(st.lists(st.integers(3, 20), min_size=1, max_size=12), st.data(), st.integers(0, 200))
def test_the_current_tab_is_always_in_sight(
    widths: list[int], data: st.DataObject, room: int
) -> None:
    current = data.draw(st.integers(0, len(widths) - 1))
    first, last = window(widths, current, room)
    assert first <= current < last
    assert sum(widths[first:last]) <= room or last - first == 1


def test_the_grid_grows_with_the_terminal() -> None:
    assert room_for(78, 18) == (1, 1)
    assert room_for(118, 35) == (2, 3)
    assert room_for(198, 55) == (3, 5)


@pytest.mark.thorough
async def test_a_metric_is_found_by_typing_and_pinned(run: SampleRun, runs: Path) -> None:
    async with running(runs, LARGE) as driver:
        await driver.shows("step 12/40")
        await driver.press("slash", *"gradn")
        await driver.shows("Find a metric", "actor/grad_norm")
        await driver.press("enter")
        await driver.shows("2 actor/grad_norm", "━ actor/grad_norm")
        await driver.until(lambda: LayoutFile().load("grpo").slots[1].is_pin, "a note of the pin")
    async with running(runs, LARGE) as driver:
        await driver.shows("2 actor/grad_norm", "pinned")
        await driver.press("d")
        await driver.until(lambda: "actor/grad_norm" not in driver.screen)


@pytest.mark.thorough
async def test_several_metrics_share_a_pinned_panel(run: SampleRun, runs: Path) -> None:
    async with running(runs, LARGE) as driver:
        await driver.shows("step 12/40")
        await driver.press("slash", *"actor/e", "tab", *("backspace",) * 7, *"clipfrac", "tab")
        await driver.press("enter")
        await driver.shows("actor/entropy +1", "━ actor/entropy", "━ actor/pg_clipfrac")


async def test_a_custom_metric_with_a_hostile_name_is_pinned_as_text(
    run: SampleRun, runs: Path
) -> None:
    name = "my/[red]metric[/red]$error\x1b[2J"
    record = {"step": 13, "attempt": 1, "t": run.started + 200, "metrics": {name: 3.5}}
    jsonl.append(run.run.train_log, record)
    async with running(runs, LARGE) as driver:
        await driver.shows("step 12/40")
        await driver.press("slash", *"red")
        await driver.shows("my/[red]metric[/red]$error [2J")
        await driver.press("enter")
        await driver.shows("2 my/[red]metric[/red]$error [2J")


async def test_a_panel_moves_hides_and_comes_back(run: SampleRun, runs: Path) -> None:
    async with running(runs, LARGE) as driver:
        await driver.shows("1 reward", "2 judge")
        await driver.press("greater_than_sign")
        await driver.shows("1 judge", "2 reward")
        await driver.press("d")
        await driver.shows("1 judge", "2 step time")
        await driver.press("slash", *"reward", "enter")
        await driver.shows("mean ± in-group std")


async def test_the_panels_beyond_the_first_page_are_named_and_reached(
    run: SampleRun, runs: Path
) -> None:
    async with running(runs, LARGE) as driver:
        await driver.shows("[1 reward]", "7 validation")
        await driver.press("7")
        await driver.shows("[7 validation]", "━ val/reward", "healthbench/reward/mean@1")


@pytest.mark.thorough
async def test_a_resize_storm_is_survived(run: SampleRun, runs: Path) -> None:
    sizes = [(40, 10), (300, 100), (80, 24), (41, 11), (120, 40), (100, 12), (60, 60), (299, 24)]
    async with running(runs, SMALL) as driver:
        await driver.shows("step 12/40")
        for size in sizes:
            await driver.resize(size)
            await driver.press("tab", "z")
        await driver.resize(LARGE)
        await driver.shows("step 12/40")
