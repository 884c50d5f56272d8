"""Files in folders that somebody else may have filled."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from engine.base import files, jsonl

Action = Callable[[Path], object]

READS: dict[str, Action] = {
    "read": lambda path: files.read_regular(path, 1000),
    "descriptor": files.open_descriptor,
}
WRITES: dict[str, Action] = {
    "append": lambda path: jsonl.append(path, {"a": 1}),
    "append text": files.open_to_append,
    "overwrite": lambda path: jsonl.overwrite_json(path, {}),
    "lock": files.open_lock,
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    run = tmp_path / "runs" / "one"
    (run / "attempt_1").mkdir(parents=True)
    (run / "manifest.json").write_text("{}")
    return run


@pytest.mark.parametrize("action", [*READS.values(), *WRITES.values()], ids=[*READS, *WRITES])
@pytest.mark.parametrize("name", ["state.json", "attempt_1/reward.jsonl"])
@pytest.mark.parametrize("target", ["file", "missing", "fifo", "device", "folder"])
def test_nothing_leads_out_of_a_run_or_blocks(
    run: Path, tmp_path: Path, action: Action, name: str, target: str
) -> None:
    outside, path = tmp_path / "outside", run / name
    if target == "fifo":
        os.mkfifo(path)
    elif target == "folder":
        path.mkdir()
    else:
        path.symlink_to(outside if target != "device" else "/dev/zero")
    if target == "file":
        outside.write_text("mine")
    with pytest.raises(OSError, match=r"regular|symbolic|directory|No such device"):
        action(path)
    assert outside.exists() == (target == "file")
    if outside.exists():
        assert outside.read_text() == "mine"


@pytest.mark.parametrize("action", [*READS.values(), *WRITES.values()], ids=[*READS, *WRITES])
def test_a_linked_attempt_leads_nowhere(run: Path, tmp_path: Path, action: Action) -> None:
    (run / "attempt_1").rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "x.jsonl").write_text("{}\n")
    (run / "attempt_1").symlink_to(tmp_path / "elsewhere")
    for name in ("x.jsonl", "new.jsonl"):
        with pytest.raises(OSError, match="a link instead of a folder"):
            action(run / "attempt_1" / name)
    with pytest.raises(OSError, match="a link instead of a folder"):
        files.make_folder(run / "attempt_1")
    with pytest.raises(OSError, match="a link instead of a folder"):
        files.write_atomic(run / "attempt_1" / "x.jsonl", "new")
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["x.jsonl"]


SAFE = {**READS, **WRITES, "replace": lambda path: files.write_atomic(path, "mine\n")}


@pytest.mark.parametrize("action", SAFE.values(), ids=SAFE)
@pytest.mark.parametrize("moment", range(4))
def test_a_link_that_is_put_in_place_while_a_file_is_opened_is_not_followed(
    run: Path, tmp_path: Path, action: Action, moment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every moment between two steps of opening, another process swaps the folder."""
    attempt, outside, real = run / "attempt_1", tmp_path / "outside", os.open
    for folder in (attempt, outside):
        folder.mkdir(exist_ok=True)
        (folder / "a.jsonl").write_text(f"{folder.name}\n")
    calls = iter(range(100))

    def swapping(*given: Any, **named: Any) -> int:
        if next(calls) == moment:
            attempt.rename(tmp_path / "moved")
            attempt.symlink_to(outside)
        return real(*given, **named)

    monkeypatch.setattr(os, "open", swapping)
    answer = None
    with suppress(OSError):
        answer = action(attempt / "a.jsonl")
    if isinstance(answer, int):
        answer = os.pread(answer, 100, 0)
    assert answer in (None, b"attempt_1\n")
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"a.jsonl": "outside\n"}


def test_folders_that_others_swap_are_not_tightened_through_a_link(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rollouts, outside, real = run / "attempt_1" / "rollouts", tmp_path / "outside", os.open
    for folder in (rollouts, outside):
        folder.mkdir()
        (folder / "1.jsonl").touch()
        (folder / "1.jsonl").chmod(0o666)

    def swapping(path: Any, *given: Any, **named: Any) -> int:
        if str(path).endswith("1.jsonl"):
            rollouts.rename(tmp_path / "moved")
            rollouts.symlink_to(outside)
        return real(path, *given, **named)

    run.chmod(0o700)
    monkeypatch.setattr(os, "open", swapping)
    files.tighten(run)
    assert (outside / "1.jsonl").stat().st_mode & 0o777 == 0o666


def test_a_link_that_a_person_put_elsewhere_is_followed(tmp_path: Path) -> None:
    (tmp_path / "train-3.log").write_text("step 1")
    (tmp_path / "latest.log").symlink_to("train-3.log")
    assert files.read_regular(tmp_path / "latest.log") == b"step 1"


def test_a_file_that_is_replaced_takes_the_place_of_a_link(run: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("mine")
    (run / "state.json").symlink_to(tmp_path / "outside")
    files.write_atomic(run / "state.json", "new")
    assert (tmp_path / "outside").read_text() == "mine"
    assert not (run / "state.json").is_symlink()


def test_a_file_of_the_largest_size_is_read_and_no_larger_one(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": 1}')
    assert jsonl.read_json(tmp_path / "a.json", limit=8) == {"a": 1}
    assert jsonl.read_json(tmp_path / "a.json", limit=7) is None
    with pytest.raises(OSError, match="larger than"):
        files.read_regular(tmp_path / "a.json", 7)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize(("folder", "file"), [(0o700, 0o600), (0o750, 0o640), (0o755, 0o644)])
def test_a_file_is_as_readable_as_its_folder_with_any_umask(
    tmp_path: Path, umask: int, folder: int, file: int
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(folder)
    before = os.umask(umask)
    try:
        jsonl.write_json(home / "a", {})
        jsonl.append(home / "b", {})
        os.close(files.open_lock(home / "lock"))
        files.make_folder(home / "below")
        (home / "below" / "by others").touch()
        files.tighten(home / "below")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in home.rglob("*")}
    loose = modes.pop("by others")
    locks = {"lock": 0o600, jsonl.APPEND_LOCK: 0o600}
    assert modes == {"a": file, "b": file & ~umask, "below": folder} | locks
    assert loose & ~file == 0


def test_folders_are_tightened_too(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    loose = tmp_path / "rollouts"
    loose.mkdir()
    loose.chmod(0o777)
    (loose / "1.jsonl").write_text("{}")
    files.tighten(tmp_path)
    assert loose.stat().st_mode & 0o777 == 0o700
    assert (loose / "1.jsonl").stat().st_mode & 0o077 == 0


def test_a_private_folder_is_its_owners_alone(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "grubrics-tui"
    files.make_private(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    files.make_private(folder)
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as other users")
def test_a_folder_of_another_user_is_never_private(tmp_path: Path) -> None:
    os.chown(tmp_path, 54_321, -1)
    with pytest.raises(PermissionError):
        files.make_private(tmp_path)


@pytest.mark.parametrize("write", [lambda path: files.write_atomic(path, "x"), files.make_folder])
def test_an_error_names_the_file_and_neither_its_temporary_one_nor_a_part_of_it(
    write: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / ("x" * 300)
    with pytest.raises(OSError, match="too long") as error:
        write(path)
    assert error.value.filename == str(path)


def test_an_error_of_a_new_file_names_the_file_and_not_a_temporary_one(tmp_path: Path) -> None:
    path = tmp_path / ("a" * 250)  # The temporary name is longer.
    with pytest.raises(OSError, match="File name too long") as raised, files.replacing(path):
        pass
    assert raised.value.filename == str(path)
