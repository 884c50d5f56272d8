"""A file of two tebibytes that holds a few lines is read as quickly as those lines."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.base import files, jsonl
from engine.base.follow import Tail
from engine.doctor.text.findings import ConsoleDiagnosis
from engine.logs.formats.external_run import read_steps
from engine.run.checkpoints.disposal import bytes_of
from engine.run.history.reward_records import RewardRecords
from engine.run.history.rollout_dump import read_rows
from engine.run.history.train_log import newest_names, newest_value
from grubrics_tui.commands.diagnose import read_of_path

SIZE = 2 << 40
MOST_READ = 256 << 20
LINES = [b'{"step": %d, "output": "x", "metrics": {"a": 1}}\n' % step for step in (1, 2)]
PLACES = {
    "in front": (SIZE // 2, SIZE // 2 + len(LINES[0])),
    "between": (0, SIZE // 2),
    "behind": (0, len(LINES[0])),
    "in the middle": (0, SIZE - len(LINES[1])),
}


@pytest.fixture(params=list(PLACES.values()), ids=list(PLACES))
def sparse(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "sparse.jsonl"
    with path.open("wb") as file:
        try:
            for place, line in zip(request.param, LINES, strict=True):
                file.seek(place)
                file.write(line)
            file.truncate(SIZE)
        except OSError:
            pytest.skip("a file system of small files")
    if path.stat().st_blocks * 512 > MOST_READ:
        pytest.skip("a file system without holes")
    left, read = [MOST_READ], os.pread

    def bounded(descriptor: int, size: int, offset: int) -> bytes:
        left[0] -= size
        assert left[0] > 0, "the hole was read"
        return read(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", bounded)
    return path


def recorded(path: Path) -> int:
    records = RewardRecords(path)
    records.poll()
    return len(records.steps("train"))


def looked(path: Path) -> int:
    diagnosis = ConsoleDiagnosis(path)
    diagnosis.findings(ended=False)
    assert diagnosis.findings(ended=True) == []
    return 2


READERS: dict[str, Callable[[Path], Any]] = {
    "records": lambda path: len(list(jsonl.read(path))),
    "appended lines": lambda path: len([line for line in Tail(path).lines() if line.strip(b"\0")]),
    "reward records": recorded,
    "rollouts": lambda path: len(list(read_rows(path))),
}


@pytest.mark.parametrize("count", READERS.values(), ids=READERS)
def test_every_line_is_found(sparse: Path, count: Callable[[Path], int]) -> None:
    assert count(sparse) == 2


def test_the_newest_value_is_found(sparse: Path) -> None:
    assert newest_value(sparse, "a") == 1.0
    assert newest_names(sparse) == ("a",)


def test_the_doctor_and_readers_of_external_logs_finish(sparse: Path) -> None:
    assert looked(sparse) == 2
    assert {step.step for step in read_steps(sparse, "own")} <= {1, 2}
    assert read_of_path(sparse)


def test_a_record_is_read_again_from_its_offset(sparse: Path) -> None:
    assert [row.line.read()["step"] for row in read_rows(sparse)] == [1, 2]


def test_reading_into_memory_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    with path.open("wb") as file:
        file.truncate(SIZE)
    assert jsonl.read_json(path) is None
    with pytest.raises(OSError, match="larger than"):
        files.read_regular(path, 1000)


def test_the_bytes_that_a_deletion_frees_exclude_holes(sparse: Path) -> None:
    assert bytes_of(sparse) < MOST_READ
