"""The wall clock is set while a run goes on: nothing but the times shown depends on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from engine.launch.launcher import start_supervisor
from engine.run.processes import identify, members
from engine.run.state import RunState, observe, observed_state, recorded_state, this_host
from engine.supervise.stopping import stop_run
from tests.engine.supervise.faults.stage import Stage, events, logged
from tests.waiting import ended, wait_for

pytestmark = pytest.mark.waits

YEAR = 365 * 24 * 3600

# Sits between a program and the C library, as libfaketime does.
SHIFT = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, now);
    const char *path = getenv("CLOCK_SHIFT");
    FILE *file = id == CLOCK_REALTIME && path ? fopen(path, "r") : NULL;
    long shift = 0;
    if (file) {
        if (fscanf(file, "%ld", &shift) != 1) shift = 0;
        fclose(file);
    }
    now->tv_sec += shift;
    return result;
}
"""


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file: by so many seconds is the wall clock of new processes wrong."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("setting one program's clock needs a C compiler")
    (tmp_path / "shift.c").write_text(SHIFT)
    library = tmp_path / "shift.so"
    command = [compiler, "-shared", "-fPIC", "-o", str(library), str(tmp_path / "shift.c"), "-ldl"]
    subprocess.run(command, check=True)
    shift = tmp_path / "shift"
    shift.write_text("0")
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("CLOCK_SHIFT", str(shift))
    return shift


@pytest.mark.parametrize("shift", [-YEAR, YEAR])
def test_a_supervisor_whose_clock_is_wrong_is_alive_all_the_same(
    stage: Stage, clock: Path, shift: int
) -> None:
    run = stage.prepare("--hang-at", "3")
    clock.write_text(str(shift))
    start_supervisor(run)
    wait_for(lambda: logged(run) == [1, 2])
    state = observed_state(run)
    assert state.state in ("starting", "running")
    assert abs((state.heartbeat or 0.0) - time.time() - shift) < 3600
    (run.attempt(1).path / "go").touch()
    assert ended(run).state == "finished"


@pytest.mark.parametrize("jump", [-YEAR, YEAR])
def test_a_clock_jump_is_not_a_stall_and_does_not_change_the_patience_of_a_stop(
    stage: Stage, clock: Path, jump: int
) -> None:
    run = stage.long("--ignore-signals")
    clock.write_text(str(jump))
    wait_for(lambda: abs((recorded_state(run) or RunState("lost")).heartbeat or 0) > 0)
    before = logged(run)[-1]
    wait_for(lambda: logged(run)[-1] > before + 5)
    assert observed_state(run).state == "running"
    assert stop_run(run).ended
    assert members(run) == []
    assert events(run, "stall") == []
    first, _, last = events(run, "signal")
    assert 0.9 < last["t"] - first["t"] < 60


def test_a_start_without_supervisor_is_lost_even_if_the_clock_was_set_back() -> None:
    state = observe(RunState("starting", heartbeat=time.time() + YEAR))
    assert (state.state, state.reason) == ("lost", "supervisor did not start")


@pytest.mark.parametrize("shift", [-YEAR, YEAR])
def test_the_heartbeat_of_a_live_supervisor_may_be_in_the_past_or_the_future(shift: int) -> None:
    state = RunState(
        "running",
        supervisor=identify(os.getpid()),
        heartbeat=time.time() + shift,
        beat=time.monotonic(),
        host=this_host(),
    )
    assert observe(state) == state
