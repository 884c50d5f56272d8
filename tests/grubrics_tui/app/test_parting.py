"""A command that follows a run says, when something ends it first, that the run goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.grubrics_tui.sample_run import SampleRun
from tests.paths import ROOT
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.waits


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_watching_ends_and_the_run_goes_on(
    run: SampleRun, runs: Path, number: signal.Signals, code: int
) -> None:
    command = [sys.executable, "-m", "grubrics_tui", "watch", "grpo-night", "--runs", str(runs)]
    watching = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Tests that are run in the background inherit that SIGINT is ignored.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert watching.stdout is not None
    for _ in range(12):
        watching.stdout.readline()
    watching.send_signal(number)
    _, told = watching.communicate(timeout=PATIENCE_S)
    assert watching.returncode == code
    assert told == ("run grpo-night keeps running. Stop it: grubrics-tui stop grpo-night\n")


def test_output_that_nobody_reads_ends_with_another_code_than_a_finished_run(
    run: SampleRun, runs: Path
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "grubrics_tui", "watch", "grpo-night", "--runs", str(runs)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    os.close(writer)
    assert done.returncode == 128 + signal.SIGPIPE
    assert done.stderr == "run grpo-night keeps running. Stop it: grubrics-tui stop grpo-night\n"
