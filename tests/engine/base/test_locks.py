"""A process that holds a lock and does nothing keeps others waiting for a while, not for ever."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.base import jsonl, locks
from engine.run.manifest import Ticket
from engine.run.run import Run
from engine.supervise.queue import QueuePlace, Start, Wait

HOLD = """
import fcntl, os, sys, time
descriptor = os.open(sys.argv[1], os.O_RDONLY)
getattr(fcntl, sys.argv[2])(descriptor, getattr(fcntl, sys.argv[3]))
print("held", flush=True)
time.sleep(600)
"""


@contextmanager
def held(path: Path, how: str = "flock", kind: str = "LOCK_EX") -> Iterator[int]:
    """The pid of another process that holds the file's lock."""
    command = [sys.executable, "-c", HOLD, str(path), how, kind]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    try:
        yield holder.pid
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "PATIENCE_S", 0.1)


def test_the_holder_of_the_lock_is_named(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.touch()
    descriptor = os.open(path, os.O_RDWR)
    with held(path) as pid, pytest.raises(OSError, match=f"locked by pid {pid} for"):
        locks.take(descriptor, path)
    locks.take(descriptor, path)
    os.close(descriptor)


def test_nothing_is_written_while_another_process_holds_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    jsonl.append(path, {"a": 1})
    with held(tmp_path / jsonl.APPEND_LOCK), pytest.raises(OSError, match="locked by pid"):
        jsonl.append(path, {"a": 2})
    jsonl.append(path, {"a": 3})
    assert list(jsonl.read(path)) == [{"a": 1}, {"a": 3}]


@pytest.mark.parametrize(("how", "kind"), [("lockf", "LOCK_SH"), ("flock", "LOCK_EX")])
def test_no_writer_waits_for_a_lock_that_a_reader_can_take(
    tmp_path: Path, how: str, kind: str
) -> None:
    path = tmp_path / "log.jsonl"
    jsonl.append(path, {"a": 1})
    with held(path, how, kind):
        jsonl.append(path, {"a": 2})
    assert list(jsonl.read(path)) == [{"a": 1}, {"a": 2}]
    assert (tmp_path / jsonl.APPEND_LOCK).stat().st_mode & 0o077 == 0


def test_a_run_waits_for_a_locked_queue_until_it_is_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.supervise.queue._JOIN_PATIENCE_S", 0.1)
    lock = tmp_path / jsonl.APPEND_LOCK
    lock.touch(mode=0o600)
    run = Run(tmp_path / "mine")
    run.path.mkdir()
    with held(lock) as pid:
        place = QueuePlace(run, Ticket(turn=True))
        waits = place.decide()
        assert isinstance(waits, Wait)
        assert f"queue.jsonl to be usable: locked by pid {pid}" in (waits.waiting_for or "")
    assert isinstance(place.decide(), Start)


def test_whether_a_lock_is_held_is_seen_without_taking_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not locks.is_held(path)
    assert not path.exists()
    path.touch(mode=0o400)
    with held(path, "flock"):
        assert locks.is_held(path)
    with path.open() as probe:
        fcntl.flock(probe, fcntl.LOCK_SH)
        assert not locks.is_held(path)
    assert not locks.is_held(path)
