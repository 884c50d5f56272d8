"""A checkpoint counts only when it is whole and this run's."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from engine.base import jsonl
from engine.run.checkpoints.find import (
    check_checkpoint,
    complete_checkpoints,
    list_checkpoints,
    size_bytes,
)
from engine.run.checkpoints.ownership import STAMP, claim
from engine.run.checkpoints.step_folders import TRACKER
from engine.run.run import Run
from engine.run.state import RunState, write_state
from tests.engine.report.runs import CREATED, make_run
from tests.engine.run.checkpoints import checkpoint_files
from tests.engine.run.checkpoints.checkpoint_files import grpo_files
from tests.manifests import change_config


def just_ended(root: Path, kind: str = "grpo", **manifest: Any) -> Run:
    """A finished run that ended a moment ago, so what lies on the disk is its own."""
    run = make_run(root, kind, **manifest)
    write_state(run, RunState("finished", ended=time.time()))
    return run


def save_step(root: Path, step: int, ranks: int = 1) -> Path:
    """A step as verl leaves it, without the tracker that it writes last."""
    return checkpoint_files.save_step(root / "checkpoints", step, grpo_files(ranks))


def track(root: Path, step: int) -> Path:
    return checkpoint_files.track(root / "checkpoints", step)


def save_final(root: Path) -> Path:
    folder = root / "checkpoints" / "final"
    folder.mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (folder / name).write_text("{}")
    return folder


def test_a_tracked_step_is_complete(tmp_path: Path) -> None:
    folder = save_step(tmp_path, 20, ranks=2)
    track(tmp_path, 20)
    report = check_checkpoint(just_ended(tmp_path))
    assert report.complete
    assert (report.path, report.step, report.size_bytes) == (folder, 20, size_bytes(folder))


def test_a_step_without_the_tracker_is_incomplete(tmp_path: Path) -> None:
    save_step(tmp_path, 20)
    report = check_checkpoint(just_ended(tmp_path))
    assert not report.complete and report.path is None
    assert f"{TRACKER} was not written" in report.message


def test_a_half_written_step_after_a_complete_one_is_not_used(tmp_path: Path) -> None:
    folder = save_step(tmp_path, 10)
    track(tmp_path, 10)
    (tmp_path / "checkpoints/global_step_20/actor").mkdir(parents=True)
    report = check_checkpoint(just_ended(tmp_path))
    assert report.complete and report.path == folder
    assert "global_step_20 is incomplete" in report.message


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        ("actor/optim_world_size_2_rank_1.pt", "optim_world_size_2_rank_1.pt is missing"),
        ("data.pt", "data.pt is missing"),
    ],
)
def test_a_tracked_step_that_lacks_a_file_is_incomplete(
    tmp_path: Path, missing: str, reason: str
) -> None:
    folder = save_step(tmp_path, 20, ranks=2)
    track(tmp_path, 20)
    (folder / missing).unlink()
    report = check_checkpoint(just_ended(tmp_path))
    assert not report.complete and reason in report.message


def test_a_tracker_may_name_a_step_that_was_deleted(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    track(tmp_path, 20)
    assert "does not exist" in check_checkpoint(just_ended(tmp_path)).message


def test_what_an_earlier_run_left_is_not_this_runs(tmp_path: Path) -> None:
    save_step(tmp_path, 20)
    os.utime(track(tmp_path, 20), (CREATED - 60, CREATED - 60))
    report = check_checkpoint(just_ended(tmp_path))
    assert not report.complete and "none from this run" in report.message


def test_a_run_that_saved_nothing_says_so(tmp_path: Path) -> None:
    assert "no checkpoint was written" in check_checkpoint(just_ended(tmp_path)).message


def test_a_run_without_a_manifest_has_no_checkpoint(tmp_path: Path) -> None:
    run = just_ended(tmp_path)
    run.manifest_file.unlink()
    assert not check_checkpoint(run).complete


def test_the_final_model_of_sft_is_complete(tmp_path: Path) -> None:
    folder = save_final(tmp_path)
    report = check_checkpoint(just_ended(tmp_path, kind="sft"))
    assert report.complete and report.path == folder


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_final_model_that_lacks_a_part_is_incomplete(tmp_path: Path, missing: str) -> None:
    (save_final(tmp_path) / missing).unlink()
    report = check_checkpoint(just_ended(tmp_path, kind="sft"))
    assert not report.complete and missing in report.message


def test_shards_of_the_weights_must_all_be_there(tmp_path: Path) -> None:
    folder = save_final(tmp_path)
    (folder / "model.safetensors").unlink()
    index = '{"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}'
    (folder / "model.safetensors.index.json").write_text(index)
    (folder / "one.safetensors").write_text("")
    assert not check_checkpoint(just_ended(tmp_path, kind="sft")).complete
    (folder / "two.safetensors").write_text("")
    assert check_checkpoint(just_ended(tmp_path / "again", kind="sft", cwd=str(tmp_path))).complete


def test_a_checkpoint_that_a_later_run_wrote_is_not_this_runs(tmp_path: Path) -> None:
    run = Run(tmp_path / "runs" / "first")
    run.path.mkdir(parents=True)
    folder = tmp_path / "checkpoints"
    config = {"trainer.default_local_dir": {"value": str(folder), "origin": "file"}}
    jsonl.write_json(run.manifest_file, {"kind": "grpo", "created": 0, "config": config})
    checkpoint_files.save(folder, 4)
    write_state(run, RunState("finished", ended=time.time()))
    assert check_checkpoint(run).complete
    write_state(run, RunState("finished", ended=time.time() - 3600))
    assert check_checkpoint(run).message == f"{folder}: overwritten by a later run"


def test_with_a_stamp_no_clock_is_asked(tmp_path: Path) -> None:
    run = make_run(tmp_path, checkpoint_dir="checkpoints", attempts=[{"number": 1}])
    claim(run)
    folder = save_step(tmp_path, 20)
    os.utime(track(tmp_path, 20), (CREATED - 60, CREATED - 60))
    assert check_checkpoint(run).path == folder


def test_a_run_whose_folder_was_renamed_still_finds_its_checkpoint(tmp_path: Path) -> None:
    run = make_run(tmp_path, checkpoint_dir="checkpoints", attempts=[{"number": 1}])
    claim(run)
    checkpoint_files.save(tmp_path / "checkpoints", 20)
    assert check_checkpoint(Run(run.path.rename(tmp_path / "runs" / "night"))).complete


def test_after_a_relaunch_the_report_says_where_the_checkpoints_went(tmp_path: Path) -> None:
    run = make_run(tmp_path, checkpoint_dir="checkpoints", attempts=[{"number": 1}])
    claim(run)
    checkpoint_files.save(tmp_path / "checkpoints", 20)
    later = Run(tmp_path / "runs" / "again")
    later.path.mkdir()
    later.write_manifest(replace(run.read_full_manifest(), id="again", created=CREATED + 9))
    claim(later)
    place, report = tmp_path / "checkpoints" / "replaced-by-again-1", check_checkpoint(run)
    assert report.moved == place
    assert report.message.endswith(
        f"now belongs to run 'again'; the checkpoints of 'grpo-1' were moved to {place}"
    )
    assert "no checkpoint was written" in check_checkpoint(later).message
    assert [one.path.parent for one in list_checkpoints(run) if one.complete] == [place]
    assert [*complete_checkpoints(run)] == [20] and list_checkpoints(later) == []


def test_a_step_whose_parameters_the_trainer_deleted_was_rotated_away(tmp_path: Path) -> None:
    run = make_run(tmp_path, checkpoint_dir="checkpoints", attempts=[{"number": 1}])
    change_config(run, **{"trainer.max_actor_ckpt_to_keep": {"value": 1, "origin": "file"}})
    claim(run)
    checkpoint_files.save(tmp_path / "checkpoints", 10, 20)
    shutil.rmtree(tmp_path / "checkpoints/global_step_10/actor")
    assert [(one.complete, one.rotated) for one in list_checkpoints(run)] == [
        (False, True),
        (True, False),
    ]


def test_a_model_that_was_there_before_the_run_is_not_its_own(tmp_path: Path) -> None:
    run = make_run(tmp_path, "sft", checkpoint_dir="checkpoints", attempts=[{"number": 1}])
    save_final(tmp_path)
    claim(run)
    assert "existed before it" in check_checkpoint(run).message
    stamp = (tmp_path / "checkpoints" / STAMP).read_bytes()
    (tmp_path / "checkpoints" / "final" / STAMP).write_bytes(stamp)
    assert check_checkpoint(run).complete


@pytest.mark.row("V35")
def test_all_checkpoints_of_a_run_are_listed_with_their_size(tmp_path: Path) -> None:
    run = make_run(tmp_path, checkpoint_dir="checkpoints", attempts=[{"number": 1}])
    claim(run)
    folders = [save_step(tmp_path, step) for step in (10, 20, 30)]
    track(tmp_path, 20)
    final = save_final(tmp_path)
    (final / STAMP).write_bytes((tmp_path / "checkpoints" / STAMP).read_bytes())
    saved = list_checkpoints(run)
    assert [(c.step, c.complete) for c in saved] == [
        (10, True),
        (20, True),
        (30, False),
        (None, True),
    ]
    assert [c.path for c in saved] == [*folders, final]
    assert all(c.bytes > 0 for c in saved)


def test_checkpoints_of_another_run_are_not_listed(tmp_path: Path) -> None:
    run = make_run(tmp_path, checkpoint_dir="checkpoints", attempts=[{"number": 1}])
    checkpoint_files.save(tmp_path / "checkpoints", 20)
    assert list_checkpoints(run) == []
