"""The real program in a real terminal: what reaches it of hostile files and names are glyphs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.e2e.terminal import Terminal
from tests.grubrics_tui.hostile_world import make_hostile_world
from tests.hostile_text import harmful
from tests.paths import ROOT

pytestmark = pytest.mark.waits

OWN = re.compile(rb"\x1b\[[0-9;?<>=$]*[a-zA-Z@]|\x1b\]22;[a-z-]*\x07")
"""Cursor, colors, modes and the pointer's shape: the only sequences that the screen needs."""


def test_only_the_programs_own_sequences_reach_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = make_hostile_world().night
    env = {name: str(tmp_path) for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}
    env["PYTHONPATH"] = str(ROOT)
    command = [sys.executable, "-m", "grubrics_tui", "watch", str(run.path)]
    terminal = Terminal(command, tmp_path, env)
    try:
        terminal.wait_for(r"step 12/40")
        # A key that opens something is waited for: the next one would go to the screen below.
        terminal.press("6", "z", "l")
        terminal.wait_for(r"search")
        terminal.press("\x1b")
        terminal.wait_for(r"step 12/40")
        terminal.press("/")
        terminal.wait_for(r"Find a metric")
        terminal.press("r", "e", "d", "\r")
        terminal.wait_for(r"pinned")
        terminal.press("s")
        terminal.wait_for(r"stop now")
        terminal.press("n")
        terminal.wait_until(lambda: "stop now" not in terminal.text())
        terminal.press("q")
        assert terminal.wait_for_exit() == 0
    finally:
        terminal.close()
    written = bytes(terminal.received)
    assert b"keeps running" in written
    text = OWN.sub(b"", written).decode()
    assert not harmful(text, allowed="\r\n\x1b>=")
    assert not re.findall(r"\x1b[^>=]", text)
