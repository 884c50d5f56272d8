"""Two runs never mix their steps in one checkpoint folder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.run.checkpoints.ownership import (
    Stamp,
    claim,
    is_known,
    loaded_checkpoint,
    moved_aside,
    read_stamp,
)
from engine.run.checkpoints.step_folders import complete_steps, tracked_step
from engine.run.manifest import AttemptRecord
from engine.run.processes import identify
from engine.run.run import Run
from engine.run.state import RunState, write_state
from tests.engine.run.checkpoints.checkpoint_files import save, save_step


def make(root: Path, name: str, fingerprint: str = "f", **config: str) -> Run:
    """A run below ``root`` that saves into ``root/checkpoints``."""
    run = Run(root / "runs" / name)
    run.path.mkdir(parents=True)
    manifest = {
        "kind": "grpo",
        "cwd": str(root),
        "checkpoint_dir": "checkpoints",
        "created": 1.0 + len(name),
        "fingerprint": fingerprint,
        "config": {f"trainer.{key}": {"value": value} for key, value in config.items()},
        "attempts": [{"number": 1}],
    }
    jsonl.write_json(run.manifest_file, manifest)
    write_state(run, RunState("failed"))
    return run


def go_on(run: Run, step: int) -> None:
    """A second attempt that goes on from ``step``."""
    manifest = run.read_full_manifest()
    folder = manifest.working_folder / "checkpoints" / f"global_step_{step}"
    attempt = AttemptRecord(number=2, from_step=step, from_=str(folder))
    run.write_manifest(replace(manifest, attempts=[*manifest.attempts, attempt]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


def test_the_folder_says_whose_it_is(tmp_path: Path, folder: Path) -> None:
    claim(make(tmp_path, "mine"))
    stamp = read_stamp(folder)
    assert stamp is not None
    assert (stamp.run, stamp.directory) == ("mine", str(tmp_path / "runs" / "mine"))


def test_a_fresh_run_finds_no_step_of_the_run_before(tmp_path: Path, folder: Path) -> None:
    claim(make(tmp_path, "first"))
    save(folder, 2, 4)
    moved = claim(make(tmp_path, "second", resume_mode="disable"))
    assert moved is not None and "(2, 4) were moved to" in moved
    assert complete_steps(folder) == {}
    assert list(complete_steps(folder / "replaced-by-second-1")) == [2, 4]


def test_resume_mode_auto_builds_on_the_last_complete_step(tmp_path: Path, folder: Path) -> None:
    claim(make(tmp_path, "first"))
    save(folder, 2, 4)
    (folder / "global_step_4" / "data.pt").unlink()
    claim(make(tmp_path, "second", resume_mode="auto"))
    assert tracked_step(folder) == 2
    assert list(complete_steps(folder)) == [2]


@pytest.mark.parametrize("owner_is_gone", [False, True])
def test_another_configuration_is_refused(
    tmp_path: Path, folder: Path, owner_is_gone: bool
) -> None:
    first = make(tmp_path, "first")
    claim(first)
    save(folder, 2)
    if owner_is_gone:
        first.path.rename(tmp_path / "archived")
    for mode in ("auto", "disable"):
        other = make(tmp_path, f"other-{mode}", "g", resume_mode=mode)
        with pytest.raises(UsageError, match="holds checkpoints of run 'first'"):
            claim(other)
    assert list(complete_steps(folder)) == [2]


def test_a_folder_without_checkpoints_is_free(tmp_path: Path, folder: Path) -> None:
    claim(make(tmp_path, "first"))
    claim(make(tmp_path, "other", "g"))
    stamp = read_stamp(folder)
    assert stamp is not None and stamp.run == "other"


def test_a_named_step_may_be_continued_with_another_configuration(
    tmp_path: Path, folder: Path
) -> None:
    claim(make(tmp_path, "first"))
    save(folder, 2, 4)
    path = "checkpoints/global_step_2"
    claim(make(tmp_path, "other", "g", resume_mode="resume_path", resume_from_path=path))
    assert list(complete_steps(folder)) == [2]


def test_a_step_of_another_folder_does_not_open_this_one(tmp_path: Path, folder: Path) -> None:
    claim(make(tmp_path, "first"))
    save(folder, 2)
    path = str(save_step(tmp_path / "elsewhere", 9))
    other = make(tmp_path, "other", "g", resume_mode="resume_path", resume_from_path=path)
    with pytest.raises(UsageError, match="holds checkpoints of run 'first'"):
        claim(other)


def test_a_folder_of_a_run_that_goes_on_is_refused(tmp_path: Path) -> None:
    first = make(tmp_path, "first")
    claim(first)
    write_state(first, RunState("running", supervisor=identify(os.getpid())))
    with pytest.raises(UsageError, match="is being written by run 'first'"):
        claim(make(tmp_path, "second"))


def test_an_abandoned_future_is_moved_away(tmp_path: Path, folder: Path) -> None:
    run = make(tmp_path, "mine")
    claim(run)
    save(folder, 2, 4, 6)
    go_on(run, 2)
    claim(run)
    assert tracked_step(folder) == 2
    assert list(complete_steps(folder)) == [2]
    assert list((folder / "replaced-by-mine-2").glob("global_step_*")) != []


def test_a_run_whose_folder_was_taken_does_not_go_on_in_it(tmp_path: Path, folder: Path) -> None:
    first = make(tmp_path, "first")
    claim(first)
    save(folder, 2)
    claim(make(tmp_path, "second"))
    go_on(first, 2)
    with pytest.raises(
        UsageError, match=r"belongs to run 'second'; the checkpoints of 'first' were moved"
    ):
        claim(first)


def test_what_was_moved_carries_the_stamp_of_who_saved_it(tmp_path: Path, folder: Path) -> None:
    first, second = make(tmp_path, "first"), make(tmp_path, "second")
    claim(first)
    save(folder, 2)
    claim(second)
    save(folder, 4)
    claim(make(tmp_path, "third"))
    for run, place in ((first, "replaced-by-second-1"), (second, "replaced-by-third-1")):
        assert moved_aside(folder, Stamp.of(run, run.read_manifest())) == folder / place


def test_the_stamp_says_which_steps_an_earlier_run_saved(tmp_path: Path, folder: Path) -> None:
    claim(make(tmp_path, "first"))
    save(folder, 2, 4)
    second = make(tmp_path, "second", resume_mode="auto")
    claim(second)
    save(folder, 6)
    stamp = read_stamp(folder)
    assert stamp is not None and (stamp.run, stamp.inherited) == ("second", 4)
    go_on(second, 2)
    claim(second)
    stamp = read_stamp(folder)
    assert stamp is not None and stamp.inherited == 2


def test_a_stamp_that_cannot_be_read_is_none(tmp_path: Path, folder: Path) -> None:
    claim(make(tmp_path, "first"))
    (folder / "grubrics_run.json").write_text('{"run": 3')
    assert read_stamp(folder) is None


def test_a_run_without_a_checkpoint_folder_claims_nothing(tmp_path: Path) -> None:
    run = make(tmp_path, "mine")
    jsonl.write_json(run.manifest_file, {"attempts": [{"number": 1}]})
    assert claim(run) is None


def test_a_copy_of_a_run_does_not_save_beside_the_original(tmp_path: Path, folder: Path) -> None:
    run = make(tmp_path, "mine")
    claim(run)
    save(folder, 2)
    copy = Run(tmp_path / "copy" / "mine")
    shutil.copytree(run.path, copy.path)
    write_state(run, RunState("running", supervisor=identify(os.getpid())))
    go_on(copy, 2)
    with pytest.raises(UsageError, match="is being written by run 'mine' in "):
        claim(copy)
    write_state(run, RunState("failed"))
    claim(copy)


def test_steps_that_a_run_of_ones_own_saved_are_known(tmp_path: Path) -> None:
    run = Run(tmp_path / "runs" / "one")
    run.path.mkdir(parents=True)
    folder = tmp_path / "ck"
    contents = {"id": "one", "created": 1.0, "cwd": str(tmp_path), "checkpoint_dir": "ck"}
    jsonl.write_json(run.manifest_file, {**contents, "attempts": [{"number": 1}]})
    claim(run)
    (folder / "global_step_3").mkdir()
    assert is_known(folder / "global_step_3")
    (folder / "global_step_3" / "model.pt").touch()
    (folder / "global_step_3" / "model.pt").chmod(0o666)
    assert not is_known(folder / "global_step_3")


def test_steps_that_came_from_elsewhere_are_not_known(tmp_path: Path) -> None:
    run = Run(tmp_path / "runs" / "one")
    run.path.mkdir(parents=True)
    folder = tmp_path / "ck"
    (folder / "global_step_3").mkdir(parents=True)
    contents = {"id": "one", "created": 1.0, "cwd": str(tmp_path), "checkpoint_dir": "ck"}
    attempt = {"number": 1, "from": str(folder / "global_step_3"), "from_step": 3}
    jsonl.write_json(run.manifest_file, {**contents, "attempts": [attempt]})
    assert loaded_checkpoint(run.read_full_manifest()) == folder / "global_step_3"
    claim(run)
    (folder / "global_step_4").mkdir()
    assert not is_known(folder / "global_step_3")
    assert is_known(folder / "global_step_4")
    folder.rename(tmp_path / "package")
    assert not is_known(tmp_path / "package" / "global_step_4")
