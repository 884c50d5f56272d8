"""The list of runs, and the index that makes it quick."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import jsonl
from engine.runs.index import Index
from engine.runs.registry import list_runs
from engine.runs.rundir import RunDir
from engine.runs.state import RunState, write_state


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number in range(3):
        make_run(tmp_path / "runs", f"run-{number}", started=float(number))
    return tmp_path / "runs"


@pytest.fixture
def index(root: Path, tmp_path: Path) -> Index:
    return Index(root, tmp_path / "cache" / "runs.sqlite")


def make_run(root: Path, name: str, started: float) -> RunDir:
    run = RunDir(root / name)
    run.path.mkdir(parents=True)
    jsonl.write_json(run.manifest, {"v": 1, "recipe": "tiny", "kind": "grpo"})
    write_state(run, RunState("finished", started=started, step=5))
    return run


def ids(root: Path, index: Index) -> list[str]:
    return [info.id for info in list_runs(root, index)]


def test_the_newest_run_comes_first(root: Path, index: Index) -> None:
    assert ids(root, index) == ["run-2", "run-1", "run-0"]


def test_a_second_look_says_the_same(root: Path, index: Index) -> None:
    assert list_runs(root, index) == list_runs(root, index)


def test_a_changed_state_is_seen_although_the_index_has_an_older_one(
    root: Path, index: Index
) -> None:
    list_runs(root, index)
    write_state(RunDir(root / "run-1"), RunState("failed", reason="new", started=1.0))
    found = {info.id: info.state.reason for info in list_runs(root, index)}
    assert found["run-1"] == "new"


def test_a_deleted_run_disappears(root: Path, index: Index) -> None:
    list_runs(root, index)
    for file in (root / "run-0").iterdir():
        file.unlink()
    (root / "run-0").rmdir()
    assert ids(root, index) == ["run-2", "run-1"]


def test_a_broken_index_is_rebuilt(root: Path, index: Index, tmp_path: Path) -> None:
    list_runs(root, index)
    (tmp_path / "cache" / "runs.sqlite").write_bytes(b"this is no database at all")
    assert len(ids(root, index)) == 3
    assert len(ids(root, index)) == 3
    assert index.read().keys() == {"run-0", "run-1", "run-2"}


def test_without_a_cache_folder_the_list_still_works(root: Path) -> None:
    assert len(ids(root, Index(root, Path("/proc/nowhere/runs.sqlite")))) == 3


def test_a_run_that_said_running_but_has_no_supervisor_is_lost(root: Path, index: Index) -> None:
    from engine.runs.processes import Identity

    gone = Identity(2**22 + 1, 1, "another boot")
    write_state(RunDir(root / "run-0"), RunState("running", supervisor=gone, started=9.0))
    assert list_runs(root, index)[0].state.state == "lost"


@pytest.mark.parametrize("moment", ["yesterday", [1], True, 1e300])
def test_a_run_with_a_senseless_date_is_listed_last(
    root: Path, index: Index, moment: object
) -> None:
    run = RunDir(root / "run-2")
    jsonl.write_json(run.manifest, {"recipe": "tiny", "kind": "grpo", "created": moment})
    jsonl.write_json(run.state, {"state": "finished", "started": moment})
    assert ids(root, index) == ["run-1", "run-0", "run-2"]


def test_a_recipe_name_cannot_move_the_cursor(root: Path, index: Index) -> None:
    (root / "run-2" / "state.json").unlink()
    jsonl.write_json(RunDir(root / "run-2").manifest, {"recipe": "a\x1b[2Jb", "kind": ["grpo"]})
    info = next(info for info in list_runs(root, index) if info.id == "run-2")
    assert (info.recipe, info.kind) == ("a [2Jb", "?")


@pytest.mark.parametrize("name", ["a\x1b[2J", "a\u202eb", "two\nlines", "-x", "x" * 101])
def test_a_folder_that_no_run_could_be_named_after_is_no_run(
    root: Path, index: Index, name: str
) -> None:
    make_run(root, name, started=9.0)
    assert ids(root, index) == ["run-2", "run-1", "run-0"]


def test_a_folder_without_manifest_or_state_is_no_run(root: Path, index: Index) -> None:
    (root / "notes").mkdir()
    assert "notes" not in ids(root, index)
