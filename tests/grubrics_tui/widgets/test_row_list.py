"""Lists with a cursor: where it goes, what stays in sight, and what the mouse does."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import pytest
from textual import events, on
from textual.app import App, ComposeResult

from grubrics_tui.drawing.spans import Row, Span
from grubrics_tui.settings.themes import DARK
from grubrics_tui.widgets.row_list import RowList
from tests.grubrics_tui.pilots import screen_text

pytestmark = pytest.mark.waits

TWELVE = [f"item {number}" for number in range(12)]


class Names(RowList[str]):
    """Names in capitals are headings; one with a plus has a second row."""

    HEADS = 1

    def is_heading(self, item: str) -> bool:
        return item.isupper()

    def starts(self, width: int) -> Sequence[int]:
        return list(accumulate((1 + ("+" in item) for item in self.items), initial=0))

    def draw_items(self, shown: range, width: int) -> list[Row]:
        rows: list[Row] = [[Span("head".rjust(width))]]
        for number in shown:
            item = self.items[number]
            rows += [[Span(f"{'>' if number == self.cursor else ' '}{item}")]]
            rows += [[Span("  more")]] if "+" in item else []
        return rows


class Frame(App[None]):
    """A list with room for five items."""

    def __init__(self, *, scrollbar: bool = False) -> None:
        super().__init__()
        self.register_theme(DARK.for_textual)
        self.theme = DARK.name
        self.opened: list[str | None] = []
        self._scrollbar = scrollbar

    def compose(self) -> ComposeResult:
        names = Names()
        names.styles.height = 6
        if self._scrollbar:
            names.styles.overflow_y = "auto"
        yield names

    @property
    def names(self) -> Names:
        return self.query_one(Names)

    @property
    def rows(self) -> list[str]:
        return [line[:20].rstrip(" ▁▂▃▄▅▆▇█") for line in screen_text(self).split("\n")[1:6]]

    @on(RowList.Opened)
    def _note(self) -> None:
        self.opened.append(self.names.selected)


async def test_the_cursor_skips_headings_in_the_direction_it_goes() -> None:
    app = Frame()
    async with app.run_test():
        app.names.show(["A", "one", "B", "two", "C"])
        assert app.names.selected == "one"
        app.names.move(1)
        assert (app.names.selected, app.names.position) == ("two", "row 2 of 2")
        app.names.move(1)
        assert app.names.selected == "two"
        app.names.move(-1)
        assert app.names.selected == "one"


async def test_the_cursor_stays_on_its_item_or_goes_to_the_first() -> None:
    app = Frame()
    async with app.run_test():
        app.names.show(["one", "two", "three"], cursor=1)
        app.names.show(["zero", "one", "two"])
        assert app.names.selected == "two"
        app.names.show(["A", "one"])
        assert app.names.selected == "one"
        app.names.show([])
        assert app.names.selected is None


async def test_the_heading_above_the_cursor_and_the_ones_at_the_end_are_in_sight() -> None:
    app = Frame()
    async with app.run_test() as pilot:
        app.names.show(["A", *TWELVE, "END"])
        app.names.select(-1)
        await pilot.pause()
        assert app.rows == [" item 8", " item 9", " item 10", ">item 11", " END"]
        app.names.select(0)
        await pilot.pause()
        assert app.rows[:2] == [" A", ">item 0"]


@pytest.mark.parametrize(("scrollbar", "selected"), [(False, "item 3"), (True, "item 0")])
async def test_the_wheel_moves_the_cursor_or_with_a_scrollbar_what_is_in_sight(
    *, scrollbar: bool, selected: str
) -> None:
    app = Frame(scrollbar=scrollbar)
    async with app.run_test() as pilot:
        app.names.show(TWELVE)
        await pilot.pause()
        app.post_message(
            events.MouseScrollDown(None, 3, 3, 0, 0, 0, shift=False, meta=False, ctrl=False)
        )
        await pilot.pause()
        await pilot.pause()
        assert app.names.selected == selected
        assert ("item 0" in app.rows[0]) is not scrollbar


async def test_a_click_on_any_row_of_an_item_selects_it_and_a_second_one_opens_it() -> None:
    app = Frame()
    async with app.run_test() as pilot:
        app.names.show(["one", "two+", "three"])
        await pilot.pause()
        await pilot.click(Names, offset=(3, 3))
        assert (app.names.selected, app.opened) == ("two+", [])
        await pilot.click(Names, offset=(3, 2))
        assert app.opened == ["two+"]
        for beside in ((3, 0), (3, 5)):
            await pilot.click(Names, offset=beside)
        assert (app.names.selected, app.opened) == ("two+", ["two+"])


async def test_a_scrollbar_that_comes_or_goes_leaves_the_list_the_other_cells() -> None:
    app = Frame(scrollbar=True)
    async with app.run_test(size=(40, 8)) as pilot:
        for items, width in ((TWELVE, 39), (TWELVE[:2], 40), (TWELVE, 39)):
            app.names.show(items, keep_scroll=True)
            await pilot.pause()
            assert screen_text(app).index("head") == width - len("head")
