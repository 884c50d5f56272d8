"""A screen that was stopped and continued from outside is as it was, and so is its terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.terminal import Terminal
from tests.grubrics_tui.sample_run import SampleRun
from tests.paths import ROOT

pytestmark = pytest.mark.waits

AGAIN = b"\x1b[?1049h"
"""What gives a program a screen of its own."""


@pytest.fixture
def terminal(run: SampleRun, runs: Path, tmp_path: Path) -> Iterator[Terminal]:
    env = {name: str(tmp_path) for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}
    env |= {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "grubrics_tui", "watch", str(run.run.path)]
    terminal = Terminal(command, tmp_path, env)
    yield terminal
    terminal.close()


def drawn_again(terminal: Terminal, times: int) -> None:
    terminal.wait_until(lambda: terminal.received.count(AGAIN) == times)
    terminal.wait_for(r"step 12/40")


def leave(terminal: Terminal) -> None:
    """What is typed while it starts over is lost. A shell would find its echo again."""
    terminal.wait_until(lambda: terminal.press("q") or terminal.has_ended())
    assert terminal.echoes()
    assert terminal.wait_for_exit() == 0


def test_it_is_drawn_again_and_hears_keys(terminal: Terminal) -> None:
    terminal.wait_for(r"step 12/40")
    for times in (2, 3, 4):
        terminal.pause()
        drawn_again(terminal, times)
    terminal.press("s")
    terminal.wait_for(r"stop now")


@pytest.mark.thorough
def test_two_pauses_in_a_row_are_survived(terminal: Terminal) -> None:
    terminal.wait_for(r"step 12/40")
    terminal.pause()
    time.sleep(0.02)  # It starts over for a tenth of a second.
    terminal.pause()
    terminal.wait_until(lambda: terminal.received.count(AGAIN) > 1)
    leave(terminal)


def test_ctrl_z_gives_the_terminal_back_until_it_is_continued(terminal: Terminal) -> None:
    terminal.wait_for(r"step 12/40")
    terminal.press("\x1a")
    terminal.wait_until(terminal.is_stopped)
    assert terminal.echoes()
    terminal.carry_on()
    drawn_again(terminal, 2)
    terminal.wait_until(lambda: not terminal.echoes())


@pytest.mark.thorough
def test_the_terminal_is_left_as_it_was_found(terminal: Terminal) -> None:
    terminal.wait_for(r"step 12/40")
    assert not terminal.echoes()
    terminal.pause()
    drawn_again(terminal, 2)
    leave(terminal)


@pytest.mark.thorough
def test_a_pause_in_the_middle_of_a_picture_tears_nothing_out_of_it(terminal: Terminal) -> None:
    terminal.wait_for(r"step 12/40")
    for times in range(2, 8):
        terminal.press("\x14" * 4)  # Nobody reads, so it is kept in the middle of a picture.
        terminal.pause()
        drawn_again(terminal, times)
    bytes(terminal.received).decode()
