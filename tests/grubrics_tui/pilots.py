"""Driving the app in tests: reading its screen as text, waiting for what it posts."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rich.console import Console
from textual._compositor import Compositor
from textual._context import message_hook
from textual.app import App
from textual.message import Message
from textual.pilot import Pilot
from textual.widget import Widget
from typer.testing import CliRunner

from engine.checks.check import Check
from engine.run.registry import list_runs
from engine.run.run import Run
from grubrics_tui.app.app import GrubricsApp
from grubrics_tui.cli import app as command_line
from grubrics_tui.screens.preflight.screen import PreflightScreen

LARGE, SMALL = (120, 40), (80, 24)

_PATIENCE_S, _LOOK_S = 120.0, 0.05
"""Only a failing test waits as long; other programs may keep every core busy."""
_TOAST_S = 3600.0
"""Notifications stay: a busy machine must not miss them."""
_ROUNDS = 20
"""Of messages that answer messages; a screen that is fed by a thread may never be quiet."""


@asynccontextmanager
async def running(
    runs: Path,
    size: tuple[int, int] = LARGE,
    config: str = "grpo_tiny",
    *,
    home: bool = False,
    **options: Any,
) -> AsyncIterator[Driver]:
    """The app over a folder of runs, without a terminal.

    With a config, and unless it is to begin at ``home``, it begins at the active run, as ``watch``
    does, or at the preflight checks.
    """
    if config and not home and not {"log", "watched", "compared"} & options.keys():
        active = _active_run(runs)
        options |= {"checks": True} if active is None else {"watched": active}
    app = GrubricsApp(runs, config, **options)
    app.NOTIFICATION_TIMEOUT = _TOAST_S  # type: ignore[misc]
    messages: list[Message] = []
    message_hook.set(messages.append)  # For the screens that the test opens itself.
    with patch.object(Compositor, "render_update", _draw_if_asked):
        async with app.run_test(
            size=size, notifications=True, message_hook=messages.append
        ) as pilot:
            driver = Driver(app, pilot, messages)
            await driver.until(
                lambda: len(app.screen_stack) > 1, "a screen above the opening picture"
            )
            yield driver
            driver.draw()


_render_update = Compositor.render_update


def _draw_if_asked(
    compositor: Compositor, full: bool = False, *arguments: Any, **options: Any
) -> Any:
    """Textual draws up to 60 pictures per second, also without a terminal that shows them: a third
    of the work of a test. Here a picture is drawn when a test looks at the screen, after keys are
    pressed, after each new size, and at the end."""
    if full:
        return _render_update(compositor, full, *arguments, **options)
    compositor._dirty_regions.clear()
    return None


def _active_run(runs: Path) -> Run | None:
    """The newest active run, queued ones last."""
    try:
        active = [run for run in list_runs(runs) if not run.state.has_ended]
    except OSError:
        return None
    active.sort(key=lambda run: run.state.state == "queued")
    return Run(runs / active[0].id) if active else None


class Driver:
    """Presses keys, waits for messages, reads the screen."""

    def __init__(self, app: GrubricsApp, pilot: Pilot[None], messages: list[Message]) -> None:
        self.app, self._pilot, self._messages = app, pilot, messages

    async def press(self, *keys: str) -> None:
        """Each key once all that came before it was done: it may open what the next one is for."""
        for key in keys:
            await self._quiet()
            await self._pilot.press(key)
        await self._quiet()
        await self._pilot.pause()
        self.draw()

    def draw(self) -> None:
        """What cannot be drawn fails the test, whether or not it looks."""
        if self.app.is_running:
            screen_text(self.app)

    async def settle(self) -> None:
        """Until every message was handled that waits now."""
        await self._pilot.pause()

    async def _quiet(self) -> None:
        """Until no message waits in the app or on its screen."""
        for _ in range(_ROUNDS):
            await self._pilot.pause(0)
            pumps = [self.app, *self.app.screen.walk_children(with_self=True)]
            if not (self.app.typed.is_busy or any(pump.message_queue_size for pump in pumps)):
                return

    async def resize(self, size: tuple[int, int]) -> None:
        await self._pilot.resize_terminal(*size)
        await self._pilot.pause()
        self.draw()

    async def click(self, widget: Widget, offset: tuple[int, int] | None = None) -> None:
        """Click a widget: its middle, or the cell at ``offset`` from its corner."""
        if offset is None:
            await self._pilot.click(widget)
        else:
            await self._pilot.click(widget, offset=offset)

    async def double_click(self, widget: Widget, offset: tuple[int, int]) -> None:
        await self._pilot.double_click(widget, offset=offset)

    async def message(self, kind: type[Message]) -> Message:
        """The newest message of ``kind`` that arrived since the last such wait."""
        await self.until(lambda: any(isinstance(message, kind) for message in self._messages))
        newest = [message for message in self._messages if isinstance(message, kind)][-1]
        self._messages.clear()
        await self._pilot.pause()
        return newest

    async def called(self, method: Callable[..., object]) -> None:
        """Until a thread has let the app call ``method`` since the last such wait."""
        await self.until(lambda: any(_calls(message, method) for message in self._messages))
        self._messages.clear()
        await self._pilot.pause()

    def answer(self, check: Check) -> None:
        """Give the preflight checks on the screen the result of one."""
        assert isinstance(self.app.screen, PreflightScreen)
        self.app.screen.call_later(self.app.screen.show_answer, check)

    async def shows(self, *texts: str) -> str:
        """Wait until every text stands on the screen, wrapped or not; returns the screen."""
        await self.until(lambda: all(map(self._holds, texts)), *texts)
        return self.screen

    def _holds(self, text: str) -> bool:
        screen = self.screen
        return text in screen or text in " ".join(screen.split())

    async def until(self, condition: Callable[[], bool], *what: str) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            if condition():
                return
            if self.app.return_code:
                return  # It crashed: leaving the context raises what it died of.
            await self._pilot.pause(_LOOK_S)
        raise AssertionError(f"never saw {what} on\n{self.screen}")

    @property
    def screen(self) -> str:
        return screen_text(self.app)


def _calls(message: Message, method: Callable[..., object]) -> bool:
    callback = getattr(message, "callback", None)
    return isinstance(callback, partial) and getattr(callback.func, "__func__", None) is method


def screen_text(app: App[None]) -> str:
    """What stands in the terminal, line by line.

    Textual's screenshot before it becomes a picture, which would take five times as long.
    """
    with patch.object(Console, "export_svg", lambda console, **_: console.export_text()):
        text = app.export_screenshot()
    rows = text.replace("\xa0", " ").removesuffix("\n").split("\n")
    return "\n".join(row.rstrip() for row in rows)


def cli_output(runs: Path, *argv: str) -> str:
    """Return what a command prints about the runs of a folder."""
    result = CliRunner().invoke(command_line, [*argv, "--runs", str(runs)])
    assert result.exception is None, result.output
    return result.output
