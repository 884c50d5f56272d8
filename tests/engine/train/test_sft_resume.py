"""Where an SFT attempt goes on from."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.recipe.recipe import Recipe, load_recipe
from engine.train.sft_resume import starting_checkpoint
from tests.engine.checkpoints.checkpoint_files import save_step, sft_files
from tests.paths import ROOT


def recipe(*overrides: str) -> Recipe:
    return load_recipe(str(ROOT / "configs" / "sft_tiny.yaml"), overrides, env={})


def test_without_a_checkpoint_it_starts_from_the_model(tmp_path: Path) -> None:
    assert starting_checkpoint(recipe(), 4, tmp_path) is None


def test_within_an_epoch_the_checkpoint_is_taken_as_it_is(tmp_path: Path) -> None:
    path = save_step(tmp_path, 6, sft_files())
    assert starting_checkpoint(recipe(f"training.resume_from={path}"), 4, tmp_path / "s") == path


def test_at_the_end_of_an_epoch_it_has_no_place_in_the_data(tmp_path: Path) -> None:
    path = save_step(tmp_path, 8, sft_files(2))
    names = {file.name for file in path.iterdir()}
    chosen = recipe(f"training.resume_from={path}")
    for _ in range(2):
        start = starting_checkpoint(chosen, 4, tmp_path / "start")
        assert start is not None and start.name == "global_step_8"
        linked = {file.name: file.resolve() for file in start.iterdir()}
        assert linked == {name: path / name for name in names if "data" not in name}
    assert {file.name for file in path.iterdir()} == names


def test_a_half_written_checkpoint_is_refused(tmp_path: Path) -> None:
    path = save_step(tmp_path, 6, sft_files())
    (path / "data_0.pt").unlink()
    with pytest.raises(UsageError, match=r"incomplete, data_0\.pt is missing"):
        starting_checkpoint(recipe(f"training.resume_from={path}"), 4, tmp_path)


def test_another_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a global_step_<n> folder"):
        starting_checkpoint(recipe(f"training.resume_from={tmp_path}"), 4, tmp_path)
