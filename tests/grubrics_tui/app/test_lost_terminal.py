"""A program whose terminal is gone ends, also if nobody sends it the signal for that."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine.run.state import recorded_state
from tests.grubrics_tui.sample_run import SampleRun
from tests.paths import ROOT
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.waits


def close_terminal(*words: str, folder: Path, text: bytes) -> int:
    """Close the terminal once ``text`` was printed to it; returns the exit code of the program.

    It ignores the hangup signal, as below ``nohup`` or ``make``.
    """
    near, far = pty.openpty()
    program = subprocess.Popen(
        [sys.executable, "-m", "grubrics_tui", *words],
        stdin=far,
        stdout=far,
        stderr=far,
        cwd=folder,
        env={**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)},
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    os.close(far)
    seen = b""
    while text not in seen:
        seen += os.read(near, 4096)
    os.close(near)
    try:
        return program.wait(PATIENCE_S)
    finally:
        program.kill()


@pytest.mark.parametrize(
    ("words", "text"), [((), b"grpo-night"), (("--json",), b'"step": 12')], ids=["screen", "lines"]
)
def test_what_follows_a_run_ends_with_its_terminal_and_leaves_the_run(
    words: tuple[str, ...], text: bytes, run: SampleRun, tmp_path: Path
) -> None:
    before = recorded_state(run.run)
    code = close_terminal("watch", str(run.run.path), *words, folder=tmp_path, text=text)
    assert code == 128 + signal.SIGHUP
    assert recorded_state(run.run) == before
