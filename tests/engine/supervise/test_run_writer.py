"""What a supervisor writes survives a disk that is full for a while."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.base import files, jsonl
from engine.run.history.train_log import Step, read_steps
from engine.run.run import OpenRunFolder, Run
from engine.run.state import RunState, recorded_state
from engine.run.system_sample import SystemSample
from engine.supervise.run_writer import RunWriter


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB that is full; ``release`` makes room."""
    mount = tmp_path / "small"
    mount.mkdir()
    if os.geteuid() != 0 or os.system(f"mount -t tmpfs -o size=64k tmpfs {mount}") != 0:
        pytest.skip("mounting a small file system needs root")
    yield mount
    os.system(f"umount -l {mount}")


def fill(mount: Path) -> Path:
    ballast = mount / "ballast"
    with ballast.open("wb", buffering=0) as handle:
        try:
            while handle.write(b"x" * 4096):
                pass
        except OSError:
            pass
    return ballast


def step(number: int) -> Step:
    return Step(number, 1, 0.0, {"reward/mean": 0.5})


def test_steps_written_during_a_full_disk_come_later_and_in_order(full_disk: Path) -> None:
    run = Run(full_disk / "run")
    run.attempt(1).path.mkdir(parents=True)
    writer = RunWriter(run, 1, OpenRunFolder(run).held)
    writer.step(step(1))
    assert writer.flush()
    ballast = fill(full_disk)
    for number in range(2, 200):
        writer.step(step(number))
    writer.state(RunState("running", step=199))
    assert not writer.flush()
    assert "No space left" in (writer.trouble or "")
    assert (writer.trouble or "").startswith(str(run.path)), "the path that a user knows"
    ballast.unlink()
    assert writer.flush()
    assert [s.step for s in read_steps(run.train_log)] == list(range(1, 200))
    state = recorded_state(run)
    assert state is not None
    assert state.step == 199


def test_another_run_of_the_name_gets_nothing(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    run.attempt(1).path.mkdir(parents=True)
    writer = RunWriter(run, 1, OpenRunFolder(run).held)
    moved = Run(run.path.rename(tmp_path / "moved"))
    run.attempt(1).path.mkdir(parents=True)
    writer.step(step(1))
    writer.event("start")
    writer.sample(SystemSample())
    writer.state(RunState("running", step=1))
    assert writer.flush()
    assert [path for path in run.path.rglob("*") if path.is_file()] == []
    assert [s.step for s in read_steps(moved.train_log)] == [1]
    assert moved.events.exists() and moved.attempt(1).system.exists()
    state = recorded_state(moved)
    assert state is not None and state.step == 1


def test_a_line_that_did_not_fit_leaves_no_torn_half(full_disk: Path) -> None:
    path = full_disk / "log.jsonl"
    jsonl.append(path, {"n": 1})
    fill(full_disk)
    with pytest.raises(OSError, match="No space left"):
        jsonl.append(path, {"text": "x" * 100_000})
    assert list(jsonl.read(path)) == [{"n": 1}]
    assert path.read_bytes().endswith(b"\n")


def test_steps_and_output_are_on_the_disk_before_the_state_says_that_the_run_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path / "run")
    run.attempt(1).path.mkdir(parents=True)
    synced: list[tuple[str, bool]] = []

    def sync_folder(folder: Path, *, with_files: bool = True) -> None:
        synced.append((folder.name, recorded_state(run) is not None))
        if recorded_state(run) is not None:  # No reason for a supervisor to stay.
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(files, "sync_folder", sync_folder)
    writer = RunWriter(run, 1)
    writer.step(step(1))
    writer.state(RunState("finished"))
    assert writer.flush()
    assert synced == [("attempt_1", False), ("run", False), ("run", True)]
