"""What the program knows of Textual's internals is still true of the installed Textual."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyte
import pytest
from textual.app import App as TextualApp
from textual.drivers.headless_driver import HeadlessDriver
from textual.drivers.linux_driver import LinuxDriver

from engine.run.history import metrics
from grubrics_tui.app.app import GrubricsApp
from grubrics_tui.app.textual_internals import SparingDriver, TerminalDiff, choose_driver
from tests.grubrics_tui.every_screen import settled
from tests.grubrics_tui.pilots import LARGE, Driver
from tests.grubrics_tui.sample_run import SampleRun


class Terminals(HeadlessDriver):
    """Two terminals: one gets everything, the other what ``TerminalDiff`` lets through."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.diff, self.all, self.some = TerminalDiff(), 0, 0
        self.whole, self.spared = pyte.Screen(*LARGE), pyte.Screen(*LARGE)
        for screen in (self.whole, self.spared):
            screen.reset_mode(pyte.modes.DECAWM)
        self._streams = pyte.Stream(self.whole), pyte.Stream(self.spared)

    @property
    def is_headless(self) -> bool:
        return False  # Else nothing is drawn.

    def write(self, data: str) -> None:
        sent = self.diff.sent(data)
        self.all, self.some = self.all + len(data), self.some + len(sent)
        for stream, text in zip(self._streams, (data, sent), strict=True):
            stream.feed(text)


class App(GrubricsApp):
    """Keeps hold of its driver."""

    def get_driver_class(self) -> type[Terminals]:
        app = self

        class Kept(Terminals):
            def __init__(self, *args: Any, **options: Any) -> None:
                super().__init__(*args, **options)
                app.terminals = self

        return Kept

    terminals: Terminals


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "keys", [["tab", "7", "1"], ["z", "z"], ["question_mark", "escape"], ["ctrl+t"]]
)
async def test_both_terminals_show_the_same(run: SampleRun, keys: list[str]) -> None:
    app = App(run.run.path.parent, "grpo_tiny", watched=run.run)
    async with app.run_test(headless=False, size=LARGE) as pilot:
        driver = Driver(app, pilot, [])
        await driver.shows("step 12/40", "reward 0.")
        for key in [*keys, "tab"]:
            run.grow(1)
            run.say("running")
            await driver.press(key)
            await settled(driver)
            assert app.terminals.spared.display == app.terminals.whole.display
        await driver.shows(f"step {run.step}/40")
        assert 0 < app.terminals.some < app.terminals.all
        assert app.terminals.spared.buffer == app.terminals.whole.buffer


async def test_nothing_is_drawn_for_what_changes_below_a_screen(run: SampleRun) -> None:
    app = App(run.run.path.parent, "grpo_tiny", watched=run.run)
    async with app.run_test(headless=False, size=LARGE) as pilot:
        driver = Driver(app, pilot, [])
        await driver.shows("step 12/40", "reward 0.")
        await driver.until(lambda: len(app.screen_stack) > 1)
        live: Any = app.screen
        history = live.history
        await driver.press("C")
        await driver.shows("d defaults")
        await settled(driver)
        before = app.terminals.all
        run.grow(1)
        run.say("running")
        await driver.until(lambda: history.last_point(metrics.REWARD_MEAN)[0] == 13)
        await driver.settle()
        assert app.terminals.all == before


def test_textual_chooses_the_driver_that_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEXTUAL_DRIVER", raising=False)
    assert TextualApp().get_driver_class() is LinuxDriver
    assert GrubricsApp.get_driver_class(GrubricsApp(Path("runs"), "")) is SparingDriver
    assert choose_driver(HeadlessDriver) is HeadlessDriver


def test_the_driver_has_the_methods_that_are_overridden() -> None:
    overridden = [name for name in vars(SparingDriver) if not name.startswith("_")]
    assert overridden == [
        "run_input_thread",
        "process_message",
        "write",
        "suspend_application_mode",
        "resume_application_mode",
    ]
    assert all(callable(getattr(LinuxDriver, name, None)) for name in overridden)
