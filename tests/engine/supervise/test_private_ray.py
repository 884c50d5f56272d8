"""The directory of a run's private Ray: nobody's but the run's, and gone when the run is."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.base import jsonl
from engine.launch.launcher import start_supervisor
from engine.run.processes import members, send
from engine.run.run import Run
from engine.run.state import RunState, observed_state, recorded_state, write_state
from engine.supervise import private_ray
from engine.supervise.stopping import stop_run
from tests.paths import ROOT
from tests.waiting import wait_for

pytestmark = pytest.mark.long

TRAINER = """
import os, sys, time
from pathlib import Path
from engine.supervise import private_ray
made = private_ray.create(Path(os.environ["GRUBRICS_ATTEMPT_DIR"]))
(made / "session").mkdir()
print("made", flush=True)
time.sleep(120)
"""


@pytest.fixture
def short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary directory as short as Ray needs it."""
    made = tempfile.mkdtemp(dir="/tmp")
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", made)
    yield Path(made)
    shutil.rmtree(made)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Run(tmp_path / "runs" / "one")
    run.attempt(1).path.mkdir(parents=True)
    return run


def left(short: Path) -> list[str]:
    return sorted(path.name for path in short.iterdir())


def test_it_is_short_enough_for_rays_sockets_and_for_its_owner_alone(short: Path, run: Run) -> None:
    made = private_ray.create(run.attempt(1).path)
    socket = made / "session_2026-11-21_08-45-16_941000_1234567" / "sockets" / "plasma_store"
    assert len(os.fsencode(socket)) < 107
    assert made.stat().st_mode & 0o777 == 0o700


def test_a_long_temporary_directory_is_not_used(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 60)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    made = private_ray.create(run.attempt(1).path)
    assert made.parent == Path("/tmp")
    private_ray.remove(run.attempt(1).path)


def test_it_is_removed_with_all_that_ray_left_in_it(short: Path, run: Run) -> None:
    made = private_ray.create(run.attempt(1).path)
    (made / "session" / "logs").mkdir(parents=True)
    assert private_ray.remove(run.attempt(1).path) == made
    assert left(short) == []


def test_removing_it_twice_is_harmless(short: Path, run: Run) -> None:
    private_ray.create(run.attempt(1).path)
    private_ray.remove(run.attempt(1).path)
    assert private_ray.remove(run.attempt(1).path) is None


def test_the_directory_of_another_attempt_stays(short: Path, run: Run) -> None:
    made = private_ray.create(run.attempt(1).path)
    run.attempt(2).path.mkdir()
    (run.attempt(2).path / private_ray.RECORD).write_text(str(made))
    assert private_ray.remove(run.attempt(2).path) is None
    assert made.exists()


def test_a_directory_that_ray_did_not_get_from_us_stays(short: Path, run: Run) -> None:
    mine = short / "gr-thesis"
    mine.mkdir()
    (run.attempt(1).path / private_ray.RECORD).write_text(str(mine))
    assert private_ray.remove(run.attempt(1).path) is None
    assert mine.exists()


def test_a_link_is_not_followed(short: Path, run: Run, tmp_path: Path) -> None:
    made = private_ray.create(run.attempt(1).path)
    moved = tmp_path / "precious"
    made.rename(moved)
    made.symlink_to(moved)
    assert private_ray.remove(run.attempt(1).path) is None
    assert (moved / private_ray.MARKER).exists()


def test_a_linked_marker_is_not_believed(short: Path, run: Run, tmp_path: Path) -> None:
    made = private_ray.create(run.attempt(1).path)
    (made / private_ray.MARKER).rename(tmp_path / "marker")
    (made / private_ray.MARKER).symlink_to(tmp_path / "marker")
    assert private_ray.remove(run.attempt(1).path) is None


# with a supervisor


@pytest.fixture
def started(run: Run, short: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    attempt = {"number": 1, "argv": [sys.executable, "-c", TRAINER]}
    manifest = {"v": 1, "id": run.id, "kind": "grpo", "cwd": str(run.path), "config": {}}
    jsonl.write_json(run.manifest_file, {**manifest, "total_steps": 3, "attempts": [attempt]})
    write_state(run, RunState("starting"))
    start_supervisor(run)
    wait_for(lambda: b"made" in console(run))
    yield run
    stop_run(run)


def console(run: Run) -> bytes:
    path = run.attempt(1).console
    return path.read_bytes() if path.exists() else b""


def kill_supervisor(run: Run) -> None:
    supervisor = recorded_state(run).supervisor  # type: ignore[union-attr]
    assert supervisor is not None
    send(supervisor, signal.SIGKILL)
    wait_for(lambda: observed_state(run).state == "lost")


def test_a_killed_driver_leaves_it_to_its_supervisor(started: Run, short: Path) -> None:
    trainer = recorded_state(started).trainer  # type: ignore[union-attr]
    assert trainer is not None
    send(trainer, signal.SIGKILL)
    wait_for(lambda: observed_state(started).has_ended)
    assert left(short) == []


def test_stopping_a_lost_run_removes_it(started: Run, short: Path) -> None:
    kill_supervisor(started)
    stop_run(started)
    assert left(short) == []


def test_of_a_lost_run_it_is_left_over_once_its_processes_are_gone(
    started: Run, short: Path
) -> None:
    kill_supervisor(started)
    assert private_ray.find_orphans(started.path.parent) == []
    for process in members(started):
        send(process, signal.SIGKILL)
    wait_for(lambda: not members(started))
    assert private_ray.find_orphans(started.path.parent) == [started.attempt(1).path]
