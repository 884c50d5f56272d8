"""Processes that ended runs left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.base import jsonl
from engine.run.processes import identify
from engine.run.run import Run
from engine.run.state import RunState, write_state
from engine.supervise.reaper import find_orphans, reap
from tests.waiting import PATIENCE_S

Start = Callable[..., "subprocess.Popen[bytes]"]
SLEEP = "print('up', flush=True); import time; time.sleep(60)"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def start(root: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def make(name: str, state: RunState | None, code: str = SLEEP) -> subprocess.Popen[bytes]:
        run = Run(root / name)
        run.path.mkdir(parents=True)
        if state is not None:
            jsonl.write_json(run.manifest_file, {"v": 1, "kind": "grpo"})
            write_state(run, state)
        marks = {"GRUBRICS_RUN_ID": name, "GRUBRICS_ATTEMPT_DIR": str(run.attempt(1).path)}
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


def test_a_process_of_an_ended_run_is_found_and_ended(root: Path, start: Start) -> None:
    process = start("old", RunState("failed"))
    (result,) = find_orphans(root)
    assert (result.process.pid, result.run, result.reason) == (
        process.pid,
        "old",
        "its run is failed",
    )
    assert reap([result], patience_s=120) == [process.pid]
    assert process.wait() == -signal.SIGTERM


def test_a_process_of_an_active_run_is_not_an_orphan(root: Path, start: Start) -> None:
    start("live", RunState("running", supervisor=identify(os.getpid())))
    assert find_orphans(root) == []


def test_a_process_whose_run_directory_is_gone_is_found(root: Path, start: Start) -> None:
    start("gone", None)
    (result,) = find_orphans(root)
    assert result.reason == "its run directory was deleted"


def test_runs_of_another_folder_are_not_ours(tmp_path: Path, root: Path, start: Start) -> None:
    start("old", RunState("failed"))
    assert find_orphans(tmp_path / "elsewhere") == []


def test_a_process_that_ignores_sigterm_is_killed(root: Path, start: Start) -> None:
    deaf = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"
    process = start("old", RunState("finished"), deaf)
    reap(find_orphans(root), patience_s=0.3)
    assert process.wait() == -signal.SIGKILL


def test_its_ports_are_named(root: Path, start: Start) -> None:
    code = (
        "import socket; s = socket.create_server(('127.0.0.1', 0));"
        f"print(s.getsockname()[1], flush=True); {SLEEP.split(';', 1)[1]}"
    )
    start("old", RunState("failed"), code)
    (result,) = find_orphans(root)
    (port,) = result.ports
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S):
        pass
