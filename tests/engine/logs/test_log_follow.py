"""What becomes of a log while it is looked at is noticed and said."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.logs.log_file import LogFollower


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "console.log"
    path.write_bytes(b"one\ntwo\n")
    return path


def test_a_file_is_opened_when_it_is_there(tmp_path: Path) -> None:
    follow = LogFollower(tmp_path / "console.log")
    assert follow.poll().change == ""
    (tmp_path / "console.log").write_bytes(b"one\n")
    update = follow.poll()
    assert (update.change, update.size) == ("opened", 4)
    assert follow.poll().change == ""


def test_growth_is_reported_with_the_new_size(log: Path) -> None:
    follow = LogFollower(log)
    before = follow.poll().file
    with log.open("ab") as file:
        file.write(b"three\n")
    update = follow.poll()
    assert (update.change, update.size) == ("grew", 14) and update.file is before


@pytest.mark.parametrize("text", [b"", b"new\n", b"quite another text, longer than before\n"])
def test_a_truncated_file_is_another_file_even_if_it_has_grown_since(
    log: Path, text: bytes
) -> None:
    follow = LogFollower(log)
    before = follow.poll().file
    with log.open("r+b") as file:
        file.truncate(0)
        file.write(text)
    update = follow.poll()
    assert update.change == "truncated" and update.file is not before and update.size == len(text)


def test_a_rotated_log_is_left_for_the_file_that_took_its_name(log: Path) -> None:
    follow = LogFollower(log)
    follow.poll()
    log.rename(log.with_suffix(".1"))
    assert follow.poll().change == "deleted"
    log.write_bytes(b"new\n")
    update = follow.poll()
    assert (update.change, update.size) == ("replaced", 4)


def test_a_deleted_file_stays_readable_and_is_followed(log: Path) -> None:
    follow = LogFollower(log)
    follow.poll()
    with log.open("ab") as writer:
        log.unlink()
        update = follow.poll()
        assert update.change == "deleted" and update.file is not None
        assert update.file.read(0, 8) == b"one\ntwo\n"
        writer.write(b"three\n")
        writer.flush()
        assert follow.poll().change == "grew"
    assert follow.poll().change == ""
