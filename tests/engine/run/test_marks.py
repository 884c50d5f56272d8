"""A process belongs to a run by the mark in its environment, not by a pid that a file names."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.base import jsonl
from engine.run.identity import Identity
from engine.run.marks import mark_of, new_mark, supervises
from engine.run.processes import alive, identify, members
from engine.run.run import Run
from engine.run.state import RunState, observed_state, write_state
from engine.supervise.reaper import find_orphans, reap
from engine.supervise.stopping import stop_run
from tests.waiting import wait_for

Start = Callable[..., Identity]
SLEEP = "print('up', flush=True); import time; time.sleep(60)"


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def make(*words: str, **variables: str) -> Identity:
        process = subprocess.Popen(
            [sys.executable, "-c", SLEEP, *words],
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        process.stdout.readline()
        started.append(process)
        identity = identify(process.pid)
        assert identity is not None
        return identity

    yield make
    for process in started:
        process.kill()
        process.wait()


def make_run(path: Path, mark: str | None, state: RunState | None = None) -> Run:
    run = Run(path)
    run.attempt(1).path.mkdir(parents=True)
    jsonl.write_json(run.manifest_file, {"v": 1, "id": path.name, "kind": "grpo", "mark": mark})
    write_state(run, state or RunState("failed"))
    return run


def marks(run: Run) -> dict[str, str]:
    """What a trainer of the run carries."""
    return {
        "GRUBRICS_RUN_ID": run.id,
        "GRUBRICS_ATTEMPT_DIR": str(run.attempt(1).path),
        "GRUBRICS_RUN_MARK": mark_of(run),
    }


def pids(run: Run) -> list[int]:
    return [process.pid for process in members(run)]


@pytest.mark.parametrize("moved", ["other/one", "other/renamed"])
def test_a_moved_run_keeps_its_processes(tmp_path: Path, start: Start, moved: str) -> None:
    run = make_run(tmp_path / "runs" / "one", new_mark())
    process = start(**marks(run))
    (tmp_path / moved).parent.mkdir()
    shutil.move(run.path, tmp_path / moved)
    assert pids(Run(tmp_path / moved)) == [process.pid]
    (result,) = find_orphans(tmp_path / "other")
    assert (result.process, result.run) == (process, Path(moved).name)
    assert find_orphans(tmp_path / "runs")[0].reason == "its run directory was deleted"
    assert reap([result]) == [process.pid]


def test_a_copy_does_not_own_the_processes_of_the_original(tmp_path: Path, start: Start) -> None:
    run = make_run(tmp_path / "runs" / "one", new_mark())
    process = start(**marks(run))
    copy = Run(shutil.copytree(run.path, tmp_path / "copies" / "one"))
    assert (pids(run), pids(copy)) == ([process.pid], [])
    assert find_orphans(tmp_path / "copies") == []
    run.path.rename(tmp_path / "moved")
    assert (pids(Run(tmp_path / "moved")), pids(copy)) == ([process.pid], [])
    copy.path.rename(run.path)
    assert pids(run) == []


def test_a_copy_of_an_active_run_is_not_active_and_a_stop_of_it_reaches_nobody(
    tmp_path: Path, start: Start
) -> None:
    run = make_run(tmp_path / "one", new_mark())
    supervisor = start(GRUBRICS_SUPERVISES=mark_of(run))
    write_state(run, RunState("running", supervisor=supervisor, heartbeat=time.time()))
    copy = Run(shutil.copytree(run.path, tmp_path / "copy"))
    (copy.path / "requests").write_text("in the way of a request, as a full disk is")
    assert observed_state(run).state == "running"
    assert observed_state(copy).state == "lost"
    assert stop_run(copy).ended
    assert alive(supervisor)


def test_a_new_run_in_the_place_of_a_deleted_one_does_not_own_its_processes(
    tmp_path: Path, start: Start
) -> None:
    run = make_run(tmp_path / "runs" / "one", new_mark())
    process = start(**marks(run))
    shutil.rmtree(run.path)
    again = make_run(tmp_path / "runs" / "one", new_mark(), RunState("running"))
    assert pids(again) == []
    (result,) = find_orphans(tmp_path / "runs")
    assert (result.process, result.reason) == (process, "its run directory was deleted")


def test_a_run_seen_through_a_link_keeps_its_processes(tmp_path: Path, start: Start) -> None:
    run = make_run(tmp_path / "runs" / "one", new_mark())
    process = start(**marks(run))
    (tmp_path / "link").symlink_to(tmp_path / "runs")
    assert pids(Run(tmp_path / "link" / "one")) == [process.pid]


def test_a_run_without_a_mark_is_known_by_its_folder(tmp_path: Path, start: Start) -> None:
    run = make_run(tmp_path / "runs" / "one", None)
    process = start(**marks(run))
    assert pids(run) == [process.pid]


@pytest.mark.parametrize("requests", [True, False], ids=["asked", "no request can be written"])
def test_a_process_that_only_a_file_names_is_neither_ended_nor_woken(
    tmp_path: Path, start: Start, requests: bool
) -> None:
    victim = start()
    os.kill(victim.pid, signal.SIGSTOP)
    wait_for(lambda: _is_stopped(victim))
    run = make_run(tmp_path / "one", new_mark(), RunState("running", supervisor=victim))
    if not requests:
        run.requests.write_text("in the way")
    try:
        stop_run(run, after_checkpoint=requests)
    except OSError:
        assert not requests
    assert alive(victim) and _is_stopped(victim)


def _is_stopped(process: Identity) -> bool:
    stat = Path(f"/proc/{process.pid}/stat").read_text()
    return stat[stat.rfind(")") + 2] == "T"


def test_a_supervisor_is_known_by_the_mark_or_by_its_command(tmp_path: Path, start: Start) -> None:
    run, other = (make_run(tmp_path / name, new_mark()) for name in ("one", "other"))
    by_mark = start(GRUBRICS_SUPERVISES=mark_of(run))
    by_command = start("engine.supervise.supervisor", str(run.path))
    for process in (by_mark, by_command):
        assert supervises(process.pid, run)
        assert not supervises(process.pid, other)
