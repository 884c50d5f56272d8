"""System calls of a supervisor fail, at random moments and with many errors: strace injects them.

The trainer is not traced. Whatever fails, no step is lost or doubled, the end is the trainer's, and
no process is left.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from engine.run.processes import alive, members
from engine.run.state import observed_state
from tests.engine.supervise.faults.stage import Stage, events, logged, supervisor_of
from tests.waiting import ended, wait_for

pytestmark = [
    pytest.mark.waits,
    pytest.mark.skipif(shutil.which("strace") is None, reason="strace injects the faults"),
]

CALLS = (
    *("openat", "newfstatat", "fstat", "statx", "read", "pread64", "getdents64", "lseek", "write"),
    *("fsync", "rename", "renameat", "unlinkat", "fchmod", "flock", "wait4", "pidfd_open"),
    *("close", "readlink", "statfs"),
)
ERRORS = ("EMFILE", "ENFILE", "ENOMEM", "EIO", "ESTALE", "EINTR", "EAGAIN", "ENOSPC")
MOMENTS = ("1+", "1+", "1+2", "1+7", "9+", "30+5")
"""Of the calls from now on: all, every second one, and so on."""


class Injector:
    """Faults in one process, for as long as the context lasts."""

    def __init__(self, pid: int, calls: list[str], error: str, moment: str, log: Path) -> None:
        injected = [f"-einject={call}:error={error}:when={moment}" for call in calls]
        trace = f"-etrace={','.join(calls)}"
        self._log = log
        self._complaint = log.with_suffix(".complaint")
        log.unlink(missing_ok=True)  # Of another round.
        with self._complaint.open("wb") as output:  # A pipe would wait for a child of strace, too.
            self._strace = subprocess.Popen(
                ["strace", "-qq", "-o", str(log), trace, *injected, "-p", str(pid)],
                stderr=output,
                start_new_session=True,
            )

    def injected(self) -> int:
        return self._log.read_text().count("(INJECTED)") if self._log.exists() else 0

    def has_begun(self) -> bool:
        return self.injected() > 0 or self._strace.poll() is not None

    def end(self) -> int:
        """Stop it; how many calls failed."""
        self._strace.send_signal(signal.SIGINT)
        self._strace.wait()
        with suppress(ProcessLookupError):  # What its start leaves if it is interrupted in it.
            os.killpg(self._strace.pid, signal.SIGKILL)
        if re.search(rb"Operation not permitted|PTRACE_SEIZE", self._complaint.read_bytes()):
            pytest.skip("this user may not trace processes")
        return self.injected()


@pytest.mark.parametrize(
    ("call", "error"), [("openat", "EMFILE"), ("fstat newfstatat", "EIO"), ("pread64", "ESTALE")]
)
def test_what_the_system_refuses_for_a_while_costs_no_step(
    stage: Stage, tmp_path: Path, call: str, error: str
) -> None:
    run = stage.long()
    before = logged(run)
    injector = Injector(supervisor_of(run).pid, call.split(), error, "1+", tmp_path / "calls")
    wait_for(injector.has_begun)
    metrics = run.attempt(1).metrics
    written = len(metrics.read_bytes().splitlines())
    wait_for(lambda: len(metrics.read_bytes().splitlines()) > written + 20)
    if call == "pread64":  # The state can be written meanwhile.
        wait_for(lambda: "cannot read its output: Stale" in (observed_state(run).reason or ""))
    assert injector.end() > 0
    wait_for(lambda: len(logged(run)) > len(before) + 20)
    assert observed_state(run).state == "running"
    assert logged(run) == list(range(1, len(logged(run)) + 1))


@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", range(30))
def test_no_step_no_end_and_no_process_is_lost_by_faults_at_random(
    stage: Stage, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    code, steps = chance.choice((0, 0, 3)), 40
    run = stage.start("--sleep", "0.1", "--exit", str(code), steps=steps)
    supervisor = supervisor_of(run)
    faults: Counter[str] = Counter()
    while alive(supervisor) and not observed_state(run).has_ended:
        calls, error = chance.sample(CALLS, chance.choice((1, 2, 4))), chance.choice(ERRORS)
        log = tmp_path / f"calls-{len(faults)}"
        injector = Injector(supervisor.pid, calls, error, chance.choice(MOMENTS), log)
        wait_for(injector.has_begun)
        faults[f"{error} of {', '.join(calls)}"] += injector.end()
    state = ended(run)
    assert logged(run) == list(range(1, steps + 1)), faults
    assert (state.state, state.exit_code) == ("failed" if code else "finished", code), faults
    assert state.step == steps
    assert len(events(run, "end")) == 1
    wait_for(lambda: not alive(supervisor))
    assert members(run) == []
