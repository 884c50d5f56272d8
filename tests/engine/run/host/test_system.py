"""A run's memory is measured as the machine's is, so that a run never holds more than its host."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.run.host.system import ProportionalMemory, SystemSampler

MIB = 2**20
_HOLD = """
import mmap, sys
with open(sys.argv[1], "rb") as file:
    pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
read = sum(pages[::4096])
held = bytearray(b"x") * (int(sys.argv[2]) << 20)
print("ready", flush=True)
sys.stdin.read()
"""
Start = Callable[[int, int], "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a process that maps a file and holds memory, both in MiB."""
    processes = []

    def start_process(mapped: int, held: int) -> subprocess.Popen[str]:
        path = tmp_path / f"{mapped}"
        path.write_bytes(bytes(mapped * MIB))
        words = [sys.executable, "-c", _HOLD, str(path), str(held)]
        pipe = subprocess.PIPE
        process = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True)
        processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield start_process
    for process in processes:
        process.kill()
        process.communicate()


def test_pages_of_files_are_not_counted(start: Start) -> None:
    size = ProportionalMemory().bytes([start(64, 32).pid])
    assert 32 * MIB < size < 64 * MIB


def test_a_process_that_ended_holds_nothing(start: Start) -> None:
    memory, short, long = ProportionalMemory(), start(1, 48), start(2, 16)
    before = memory.bytes([short.pid, long.pid])
    assert before > 64 * MIB
    assert memory.bytes([long.pid]) < before - 48 * MIB


def test_a_run_holds_less_than_its_host(start: Start, tmp_path: Path) -> None:
    sample = SystemSampler(tmp_path).sample([start(16, 16).pid])
    assert 16 * MIB < (sample.run.pss or 0) < (sample.mem_used or 0)
