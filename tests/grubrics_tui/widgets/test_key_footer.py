"""The line of keys while a screen closes."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult
from textual.widgets import Static

from grubrics_tui.widgets.key_footer import KeyFooter

pytestmark = pytest.mark.waits


class Keys(App[None]):
    """Its key depends on a widget."""

    def on_mount(self) -> None:
        self.bind("x", "cut", description="cut")

    def compose(self) -> ComposeResult:
        yield Static(id="rows")
        yield KeyFooter()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "cut" or self.query_one("#rows").display


async def test_a_widget_that_is_gone_before_the_footer_ends_nothing() -> None:
    async with Keys().run_test() as pilot:
        await pilot.app.query_one("#rows").remove()
        await pilot.app.query_one(KeyFooter).recompose()
        assert pilot.app.query_one(KeyFooter).is_attached
