"""Only what verl wrote to its end can be gone on from."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.run.checkpoints.step_folders import (
    TRACKER,
    WantedFiles,
    complete_steps,
    step_problem,
    tracked_step,
)
from tests.engine.run.checkpoints.checkpoint_files import (
    KINDS,
    archive,
    grpo_files,
    save,
    save_step,
    sft_files,
    track,
)

SAVE_CONTENTS = "actor_rollout_ref.actor.checkpoint.save_contents"


@pytest.mark.parametrize("files", [grpo_files(), grpo_files(2), sft_files(), sft_files(2)])
def test_every_file_of_a_step_is_needed(tmp_path: Path, files: list[str]) -> None:
    track(tmp_path, 4)
    path = save_step(tmp_path, 4, files)
    assert step_problem(path) is None
    for name in files:
        (path / name).unlink()
        problem = step_problem(path)
        assert problem is not None
        assert problem == f"{name} is missing" or "huggingface has no" in problem
        archive(path / name)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_kind_of_shard_that_is_gone_whole_is_named(tmp_path: Path, kind: str, ranks: int) -> None:
    path = save_step(tmp_path, 4, grpo_files(ranks))
    for shard in (path / "actor").glob(f"{kind}_*.pt"):
        shard.unlink()
    assert step_problem(path) == f"actor/{kind}_world_size_{ranks}_rank_0.pt is missing"


def test_a_rank_that_left_nothing_is_named(tmp_path: Path) -> None:
    path = save_step(tmp_path, 4, grpo_files(4))
    for shard in (path / "actor").glob("*_rank_3.pt"):
        shard.unlink()
    assert step_problem(path) == "actor/model_world_size_4_rank_3.pt is missing"


@pytest.mark.parametrize("name", [*grpo_files(2), *sft_files()])
@pytest.mark.parametrize("size", [0, 30])
def test_every_file_is_looked_at_to_its_end(tmp_path: Path, name: str, size: int) -> None:
    path = save_step(tmp_path, 4, grpo_files(2) if name in grpo_files(2) else sft_files())
    file = path / name
    file.write_bytes((file.read_bytes() * 2)[: min(size, file.stat().st_size - 1)])
    assert step_problem(path) is not None


@pytest.mark.parametrize(
    "contents", [["model"], ["model", "extra"], ["model", "optimizer"], ["model", "hf_model"]]
)
def test_only_what_the_config_saves_is_wanted(tmp_path: Path, contents: list[str]) -> None:
    wanted = WantedFiles.by_config({SAVE_CONTENTS: contents})
    path = save_step(tmp_path, 4, grpo_files(2, wanted.kinds))
    if "hf_model" in contents:
        assert step_problem(path, wanted) == "actor/huggingface has no weights (model.safetensors)"
        (path / "actor/huggingface/model.safetensors").write_bytes(b"x")
    assert step_problem(path, wanted) is None
    assert step_problem(path) is not None or contents == ["model", "optimizer", "extra"]


def test_the_rank_and_scale_of_an_adapter_belong_to_its_shards(tmp_path: Path) -> None:
    path = save_step(tmp_path, 4)
    (path / "actor/lora_train_meta.json").unlink()
    wanted = WantedFiles.by_config({"actor_rollout_ref.model.lora_rank": 16})
    assert step_problem(path) is None
    assert step_problem(path, wanted) == "actor/lora_train_meta.json is missing"
    (path / "actor/lora_train_meta.json").write_text('{"r": 16}')
    assert step_problem(path, wanted) is None
    assert WantedFiles.by_config({"lora.r": 8}).lora


def test_a_critic_is_saved_beside_the_actor(tmp_path: Path) -> None:
    path = save_step(tmp_path, 4)
    wanted = WantedFiles.by_config({"algorithm.adv_estimator": "gae"})
    assert step_problem(path, wanted) is not None
    for name in grpo_files():
        if name.startswith("actor/"):
            archive(path / name.replace("actor/", "critic/"))
    assert step_problem(path, wanted) is None


def test_a_file_that_was_cut_short_is_named(tmp_path: Path) -> None:
    path = save_step(tmp_path, 4)
    (path / "actor/optim_world_size_1_rank_0.pt").write_bytes(b"PK\x03\x04 the first half")
    assert step_problem(path) == "actor/optim_world_size_1_rank_0.pt is cut short"


@pytest.mark.row("H15")
def test_a_step_after_the_tracker_is_half_written(tmp_path: Path) -> None:
    save(tmp_path, 2)
    save_step(tmp_path, 4)
    assert list(complete_steps(tmp_path)) == [2]


@pytest.mark.parametrize("torn", ["", "\n", "x", "-4", "1_0", "٤", "9" * 5000])
def test_a_torn_tracker_leaves_the_verdict_to_the_files(tmp_path: Path, torn: str) -> None:
    save(tmp_path, 2, 4)
    (tmp_path / TRACKER).write_text(torn)
    (save_step(tmp_path, 6) / "data.pt").unlink()
    assert tracked_step(tmp_path) is None
    assert list(complete_steps(tmp_path)) == [2, 4]


def test_a_tracker_that_names_a_deleted_folder_leaves_the_earlier_ones(tmp_path: Path) -> None:
    save(tmp_path, 2)
    track(tmp_path, 4)
    assert list(complete_steps(tmp_path)) == [2]


def test_without_a_tracker_nothing_was_completed(tmp_path: Path) -> None:
    save_step(tmp_path, 2)
    assert complete_steps(tmp_path) == {}


WHOLE, NO_DATA, CUT_SHORT, EMPTY = "whole", "no data", "cut short", "empty"
folders = st.dictionaries(
    st.integers(1, 40), st.sampled_from([WHOLE, WHOLE, NO_DATA, CUT_SHORT, EMPTY]), max_size=6
)
trackers = st.one_of(
    st.none(), st.integers(0, 50).map(str), st.sampled_from(["", "4x", "\x00\x00"])
)
strangers = st.sets(
    st.sampled_from(
        ["global_step_99.tmp", "global_step_", "global_step_099", ".global_step_98", "final",
         "global_step_97_old", "replaced-by-x-1", "latest_checkpointed_iteration.txt.tmp"]
    )
)  # fmt: skip


@given(folders, trackers, strangers, st.booleans())
def test_what_is_chosen_is_always_whole(
    steps: dict[int, str], tracker: str | None, others: set[str], sft: bool
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for step, shape in steps.items():
            write(folder, step, shape, sft_files() if sft else grpo_files())
        for other in others:
            save_step(folder / "elsewhere", 99).rename(folder / other)
        if tracker is not None:
            (folder / TRACKER).write_text(tracker)
        result = complete_steps(folder)
        last = int(tracker) if tracker is not None and tracker.isdecimal() else None
        may_be = {s for s, shape in steps.items() if shape == WHOLE and (not last or s <= last)}
        assert list(result) == sorted(may_be if tracker is not None and last != 0 else set())
        assert all(path == folder / f"global_step_{step}" for step, path in result.items())


def write(folder: Path, step: int, shape: str, files: list[str]) -> None:
    path = save_step(folder, step, files)
    if shape == NO_DATA:
        (path / files[-1]).unlink()
    elif shape == CUT_SHORT:
        (path / files[1]).write_bytes(b"PK\x03\x04")
    elif shape == EMPTY:
        for name in files:
            (path / name).unlink()
