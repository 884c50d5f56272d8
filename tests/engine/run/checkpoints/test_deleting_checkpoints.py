"""Checkpoints go with their run only when asked for, and only those that are its own."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.base.typed import to_json
from engine.run.checkpoints.ownership import STAMP, Stamp
from engine.run.checkpoints.step_folders import TRACKER, complete_steps
from engine.run.run import Run
from engine.supervise.housekeeping import (
    archive,
    delete,
    plan_deletion,
)
from tests.engine.run.checkpoints.checkpoint_files import save
from tests.engine.supervise.kept_runs import make_run, save_checkpoint
from tests.manifests import change_config


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def test_checkpoints_are_counted_apart_and_stay_unless_asked_for(root: Path) -> None:
    run = make_run(root)
    folder = save_checkpoint(run)
    plan = plan_deletion(run, root)
    assert (plan.checkpoints.folder, plan.checkpoints.freed) == (folder, 5000)
    delete(plan)
    assert (folder / "global_step_5" / "actor" / "model.pt").exists()


def test_checkpoints_go_when_asked_for(root: Path) -> None:
    run = make_run(root)
    folder = save_checkpoint(run)
    plan = plan_deletion(run, root)
    assert delete(plan, checkpoints=True) == plan.files_bytes + 5000
    assert not folder.exists()


def test_what_training_did_not_write_stays(root: Path) -> None:
    run = make_run(root)
    folder = save_checkpoint(run)
    (folder / "notes.md").write_text("mine")
    delete(plan_deletion(run, root), checkpoints=True)
    assert [path.name for path in folder.iterdir()] == ["notes.md"]


def test_a_half_deleted_checkpoint_is_none_and_is_deleted_the_next_time(root: Path) -> None:
    run = make_run(root)
    folder = save_checkpoint(run)
    (folder / TRACKER).unlink()
    (folder / "global_step_5").rename(folder / ".trash-global_step_5")
    delete(plan_deletion(run, root), checkpoints=True)
    assert not folder.exists()


def keeps(run: Run, root: Path, because: str) -> bool:
    plan = plan_deletion(run, root)
    delete(plan, checkpoints=True)
    folder = plan.checkpoints.folder
    assert folder is not None
    assert plan.checkpoints.freed == 0
    assert because in (plan.checkpoints.kept_because or "")
    return (folder / "global_step_5" / "actor" / "model.pt").exists()


def test_checkpoints_without_a_stamp_stay(root: Path) -> None:
    run = make_run(root)
    save_checkpoint(run, stamped=False)
    assert keeps(run, root, STAMP)


def test_checkpoints_that_another_run_stamped_stay(root: Path) -> None:
    run = make_run(root)
    folder = save_checkpoint(run)
    jsonl.write_json(folder / STAMP, to_json(Stamp("newer", 1.5e9, "runs/newer", "")))
    assert keeps(run, root, "they belong to run 'newer'")


def test_a_later_run_of_the_same_name_is_another_run(root: Path) -> None:
    run = make_run(root)
    folder = save_checkpoint(run)
    jsonl.write_json(folder / STAMP, to_json(Stamp("old", 1.5e9, str(run.path), "")))
    assert keeps(run, root, "they belong to run 'old'")


@pytest.mark.parametrize(
    "use",
    [
        {"checkpoint_dir": "checkpoints/old"},
        {"checkpoint_dir": "checkpoints/../checkpoints/old/"},
        {"attempts": [{"number": 2, "from": "checkpoints/old/global_step_5"}]},
        {"attempts": [{"argv": ["trainer.resume_from_path=checkpoints/old/global_step_5"]}]},
        {"config": {"model.path": {"value": "checkpoints/old/final", "origin": "file"}}},
    ],
)
def test_checkpoints_that_another_run_uses_stay(root: Path, use: dict[str, Any]) -> None:
    run = make_run(root)
    save_checkpoint(run)
    make_run(root, "younger", **use)
    assert keeps(run, root, "run 'younger' uses them")


@pytest.mark.parametrize(
    ("damage", "reason"), [("", "uses them"), ("{", "may use them (its manifest is damaged)")]
)
def test_checkpoints_that_the_config_file_of_another_run_names_stay(
    root: Path, damage: str, reason: str
) -> None:
    run = make_run(root)
    save_checkpoint(run)
    younger = make_run(root, "younger")
    change_config(younger, **{"model.path": {"value": "checkpoints/old/final"}})
    if damage:
        younger.settings_file.write_text(damage)
    assert keeps(run, root, f"run 'younger' {reason}")


def test_steps_that_an_earlier_run_saved_stay_when_the_run_that_built_on_them_goes(
    root: Path,
) -> None:
    run = make_run(root)
    folder = save_checkpoint(run)
    save(folder, 2, 4, 6)
    stamp = Stamp.of(run, run.read_manifest())
    jsonl.write_json(folder / STAMP, to_json(structs.replace(stamp, inherited=4)))
    delete(plan_deletion(run, root), checkpoints=True)
    assert list(complete_steps(folder)) == [2, 4]
    assert not (folder / "global_step_6").exists()


def test_a_deletion_says_where_a_later_run_put_the_checkpoints(root: Path) -> None:
    run = make_run(root)
    folder = save_checkpoint(run)
    aside = folder / "replaced-by-newer-1"
    aside.mkdir()
    shutil.move(folder / "global_step_5", aside)
    (folder / STAMP).rename(aside / STAMP)
    plan = plan_deletion(run, root)
    delete(plan, checkpoints=True)
    assert plan.to_json()["checkpoints_moved_to"] == str(aside)
    assert (aside / "global_step_5").exists()


def test_checkpoints_that_an_archived_run_uses_stay(root: Path) -> None:
    run = make_run(root)
    save_checkpoint(run)
    archive(make_run(root, "younger", checkpoint_dir="checkpoints/old"))
    assert keeps(run, root, "run 'younger' uses them")


def test_checkpoints_that_came_into_use_since_they_were_shown_stay(root: Path) -> None:
    run = make_run(root)
    folder = save_checkpoint(run)
    plan = plan_deletion(run, root)
    make_run(root, "younger", checkpoint_dir="checkpoints/old")
    with pytest.raises(UsageError, match="have changed; nothing was deleted"):
        delete(plan, checkpoints=True)
    assert run.manifest_file.exists() and (folder / TRACKER).exists()


def test_a_run_that_reaches_them_through_a_link_uses_them(root: Path, tmp_path: Path) -> None:
    run = make_run(root)
    save_checkpoint(run)
    (tmp_path / "alias").symlink_to(tmp_path / "checkpoints")
    make_run(root, "younger", checkpoint_dir="alias/old")
    assert keeps(run, root, "run 'younger' uses them")


def test_a_model_path_that_is_a_link_of_another_name_uses_them(root: Path, tmp_path: Path) -> None:
    run = make_run(root)
    (save_checkpoint(run) / "final").mkdir()
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "best").symlink_to(tmp_path / "checkpoints" / "old" / "final")
    make_run(root, "younger", config={"model.path": {"value": "models/best", "origin": "file"}})
    assert keeps(run, root, "run 'younger' uses them")


def test_a_manifest_that_cannot_be_read_counts_as_use(root: Path) -> None:
    run = make_run(root)
    save_checkpoint(run)
    make_run(root, "torn").manifest_file.write_text('{"checkpoint_dir": "elsewh')
    assert keeps(run, root, "run 'torn' may use them (its manifest is damaged)")


def test_a_checkpoint_folder_that_is_a_link_stays(root: Path, tmp_path: Path) -> None:
    run = make_run(root)
    folder = save_checkpoint(run)
    real = tmp_path / "big-disk"
    shutil.move(folder, real)
    folder.symlink_to(real)
    delete(plan_deletion(run, root), checkpoints=True)
    assert (real / "global_step_5" / "actor" / "model.pt").exists()


def test_checkpoints_of_the_original_stay_when_a_copy_of_its_directory_is_deleted(
    root: Path, tmp_path: Path
) -> None:
    run = make_run(root)
    save_checkpoint(run)
    shutil.copytree(root, tmp_path / "copy")
    assert keeps(Run(tmp_path / "copy" / "old"), tmp_path / "copy", str(run.path))


def test_a_model_that_was_there_before_the_run_stays(root: Path) -> None:
    run = make_run(root)
    folder = save_checkpoint(run)
    (folder / "final").mkdir()
    (folder / "final" / "model.safetensors").write_text("precious")
    delete(plan_deletion(run, root), checkpoints=True)
    assert [path.name for path in folder.iterdir()] == ["final"]


def test_the_run_s_own_model_goes_with_its_checkpoints(root: Path) -> None:
    run = make_run(root)
    folder = save_checkpoint(run)
    (folder / "final").mkdir()
    shutil.copy(folder / STAMP, folder / "final")
    delete(plan_deletion(run, root), checkpoints=True)
    assert not folder.exists()


def test_a_run_that_holds_its_checkpoints_itself_is_not_deleted_without_them(root: Path) -> None:
    run = make_run(root, checkpoint_dir="runs/old/checkpoints")
    save_checkpoint(run).rename(run.path / "checkpoints")
    with pytest.raises(UsageError, match="holds its checkpoints itself"):
        delete(plan_deletion(run, root))
    assert (run.path / "checkpoints" / "global_step_5").exists()
    delete(plan_deletion(run, root), checkpoints=True)
    assert not run.path.exists()
