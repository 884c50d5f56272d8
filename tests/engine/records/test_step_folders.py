"""Only what verl wrote to its end can be gone on from."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.records.step_folders import TRACKER, complete_steps, step_problem, tracked_step
from tests.engine.records.checkpoint_files import (
    archive,
    grpo_files,
    save,
    save_step,
    sft_files,
    track,
)


@pytest.mark.parametrize("files", [grpo_files(), grpo_files(2), sft_files(), sft_files(2)])
def test_every_file_of_a_step_is_needed(tmp_path: Path, files: list[str]) -> None:
    track(tmp_path, 4)
    path = save_step(tmp_path, 4, files)
    assert step_problem(path) is None
    for name in files:
        (path / name).unlink()
        # A kind of shard that was never begun is only noticed by what comes after it.
        if "rank_1" in name or "data" in name:
            assert step_problem(path) == f"{name} is missing"
        archive(path / name)


def test_a_file_that_was_cut_short_is_named(tmp_path: Path) -> None:
    path = save_step(tmp_path, 4)
    (path / "actor/optim_world_size_1_rank_0.pt").write_bytes(b"PK\x03\x04 the first half")
    assert step_problem(path) == "actor/optim_world_size_1_rank_0.pt is cut short"


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
        found = complete_steps(folder)
        last = int(tracker) if tracker is not None and tracker.isdecimal() else None
        may_be = {s for s, shape in steps.items() if shape == WHOLE and (not last or s <= last)}
        assert list(found) == sorted(may_be if tracker is not None and last != 0 else set())
        assert all(path == folder / f"global_step_{step}" for step, path in found.items())


def write(folder: Path, step: int, shape: str, files: list[str]) -> None:
    path = save_step(folder, step, files)
    if shape == NO_DATA:
        (path / files[-1]).unlink()
    elif shape == CUT_SHORT:
        (path / files[1]).write_bytes(b"PK\x03\x04")
    elif shape == EMPTY:
        for name in files:
            (path / name).unlink()
