"""The screen of what ended runs left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.grubrics_tui.pilots import SMALL, running
from tests.grubrics_tui.sample_run import SampleRun
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.waits

LISTENER = (
    "import socket, time; s = socket.create_server(('127.0.0.1', 0));"
    "print(s.getsockname()[1], flush=True); time.sleep(600)"
)


@pytest.fixture
def straggler(runs: Path) -> Iterator[subprocess.Popen[str]]:
    """A process of a failed run, listening on the port that it printed."""
    sample = SampleRun.create(runs, "broken")
    sample.say("failed", reason="exit code 1")
    attempt = sample.run.attempt(1).path.resolve()
    marks = {"GRUBRICS_RUN_ID": "broken", "GRUBRICS_ATTEMPT_DIR": str(attempt)}
    process = subprocess.Popen(
        [sys.executable, "-c", LISTENER],
        env={**os.environ, **marks},
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.wait()


async def test_without_orphans_the_screen_says_so(run: SampleRun, runs: Path) -> None:
    async with running(runs) as driver:
        await driver.press("r", "p")
        screen = await driver.shows("No orphaned processes from runs in")
        assert "x kill" not in screen


async def test_a_process_is_shown_with_what_it_holds(
    straggler: subprocess.Popen[str], runs: Path
) -> None:
    assert straggler.stdout is not None
    port = straggler.stdout.readline().strip()
    async with running(runs, SMALL) as driver:
        await driver.press("r", "p")
        screen = await driver.shows(str(straggler.pid), "broken", "its run is failed", "MiB")
        assert f"ports {port}" in screen
        assert "GPU memory none" in screen
        assert "import socket" in screen


async def test_a_confirmed_reap_ends_it_and_says_which(
    straggler: subprocess.Popen[str], runs: Path
) -> None:
    assert straggler.stdout is not None
    straggler.stdout.readline()
    async with running(runs) as driver:
        await driver.press("r", "p")
        await driver.shows(str(straggler.pid))
        await driver.press("x")
        await driver.shows("Kill orphaned processes?", "1 process", str(straggler.pid))
        await driver.press("y")
        assert straggler.wait(PATIENCE_S) == -signal.SIGTERM
        await driver.shows(f"Killed {straggler.pid}.", "No orphaned processes")


async def test_without_a_yes_it_lives_on(straggler: subprocess.Popen[str], runs: Path) -> None:
    async with running(runs) as driver:
        await driver.press("r", "p")
        await driver.shows(str(straggler.pid))
        await driver.press("x")
        await driver.shows("Kill orphaned processes?")
        await driver.press("enter", "escape", "escape")
        await driver.shows("1 run ")
        assert straggler.poll() is None
