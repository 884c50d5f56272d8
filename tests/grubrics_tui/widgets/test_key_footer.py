"""The line of keys: clicks press them, and it survives a screen that closes."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult
from textual.widgets import Static

from grubrics_tui.widgets.key_footer import KeyFooter

pytestmark = pytest.mark.waits


class Keys(App[None]):
    """Its key depends on a widget."""

    def __init__(self) -> None:
        super().__init__()
        self.pressed: list[str] = []

    def on_mount(self) -> None:
        self.bind("x", "cut", description="cut")
        self.bind("p", "paste", description="paste")

    def action_paste(self) -> None:
        self.pressed.append("paste")

    def compose(self) -> ComposeResult:
        yield Static(id="rows")
        yield KeyFooter()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "cut" or self.query_one("#rows").display


async def test_a_widget_that_is_gone_before_the_footer_ends_nothing() -> None:
    async with Keys().run_test() as pilot:
        await pilot.app.query_one("#rows").remove()
        pilot.app.query_one(KeyFooter).update_keys()
        assert pilot.app.query_one(KeyFooter).is_attached


async def test_a_click_presses_the_key_under_it() -> None:
    app = Keys()
    async with app.run_test() as pilot:
        await pilot.pause()
        await pilot.click(KeyFooter, offset=(1 + len(" x cut "), 0))
        await pilot.pause()
        assert app.pressed == ["paste"]


async def test_a_click_beside_the_keys_presses_none() -> None:
    app = Keys()
    async with app.run_test() as pilot:
        await pilot.pause()
        await pilot.click(KeyFooter, offset=(70, 0))
        await pilot.pause()
        assert app.pressed == []
