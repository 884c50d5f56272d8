"""Whose process is whose."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.run.processes import alive, identify, members, send
from engine.run.run import Run

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def make(run: Run, **more: str) -> subprocess.Popen[bytes]:
        marks = {
            "GRUBRICS_RUN_ID": run.id,
            "GRUBRICS_ATTEMPT_DIR": str(run.path.resolve() / "attempt_1"),
            **more,
        }
        code = "print('up', flush=True); import time; time.sleep(60)"
        process = subprocess.Popen(
            [sys.executable, "-c", code], env={**os.environ, **marks}, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.readline()
        started.append(process)
        return process

    yield make
    for process in started:
        process.kill()
        process.wait()


def test_a_run_of_the_same_id_in_another_folder_is_another_run(
    tmp_path: Path, start: Start
) -> None:
    mine, other = Run(tmp_path / "a" / "run"), Run(tmp_path / "b" / "run")
    process = start(mine)
    assert [member.pid for member in members(mine)] == [process.pid]
    assert members(other) == []


def test_a_run_that_a_process_of_the_run_launched_is_not_part_of_it(
    tmp_path: Path, start: Start
) -> None:
    mine, launched = Run(tmp_path / "mine"), Run(tmp_path / "launched")
    own = start(mine)
    supervisor = start(mine, GRUBRICS_RUN_ID="", GRUBRICS_SUPERVISES="mark of launched")
    trainer = start(launched)
    related = members(mine, roots=[os.getpid()])
    assert own.pid in {member.pid for member in related}
    assert not {supervisor.pid, trainer.pid} & {member.pid for member in related}


def test_processes_of_a_ray_cluster_are_not_signaled(tmp_path: Path, start: Start) -> None:
    run = Run(tmp_path / "run")
    start(run, GRUBRICS_ON_CLUSTER="1")
    assert members(run) == []


def test_a_reused_pid_is_not_the_same_process(tmp_path: Path, start: Start) -> None:
    process = start(Run(tmp_path / "run"))
    identity = identify(process.pid)
    assert identity is not None
    earlier = replace(identity, start=identity.start - 1)
    assert not alive(earlier)
    assert not send(earlier, signal.SIGKILL)
    assert alive(identity)


@pytest.mark.skipif(os.getuid() == 0, reason="root may signal everybody")
def test_a_process_of_somebody_else_is_not_signalled() -> None:
    identity = identify(1)
    assert identity is not None
    assert not send(identity, signal.SIGTERM)


def test_a_process_of_another_boot_is_not_alive(tmp_path: Path, start: Start) -> None:
    identity = identify(start(Run(tmp_path / "run")).pid)
    assert identity is not None
    assert not alive(replace(identity, boot="another"))


def test_a_zombie_is_not_alive(tmp_path: Path, start: Start) -> None:
    process = start(Run(tmp_path / "run"))
    identity = identify(process.pid)
    assert identity is not None
    os.kill(process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not alive(identity)
