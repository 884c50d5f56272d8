"""The files of a curriculum are prepared if they are missing, and only then."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from engine.base.errors import UsageError
from engine.config.load import Config, load_config
from engine.data.contract import read_rows
from engine.launch.curriculum_data import with_prepared_files

PHASES = "grubrics.curriculum=0.8:0.2:0.5 0.2:0.8:0.5"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with questions of two kinds, all with gold scores."""
    monkeypatch.chdir(tmp_path)
    options = {"A": "yes", "B": "no"}
    choices = [
        {"question": f"Choice {number}?", "options": options, "answer_idx": "A"}
        for number in range(4)
    ]
    Path("choice.jsonl").write_text("\n".join(map(json.dumps, choices)) + "\n")
    question = {
        "prompt_id": "o",
        "prompt": [{"role": "user", "content": "Open question?"}],
        "rubrics": [{"criterion": "Names it", "points": 10, "tags": []}],
    }
    gold = {"question_id": "o", "answers": ["well done", "badly"], "gold_scores": [0.9, 0.2]}
    Path("open.jsonl").write_text(json.dumps(question) + "\n")
    Path("cache.jsonl").write_text(json.dumps(gold) + "\n")
    preset = {
        "type": "curriculum",
        "verifiable": {"medqa": {"path": "choice.jsonl"}},
        "open": {"healthbench": {"path": "open.jsonl", "cache": "cache.jsonl"}},
        "phases": [[0.5, 0.5]],
    }
    Path("configs").mkdir()
    presets = {"active_preset": "curriculum", "presets": {"curriculum": preset}}
    Path("configs/training_presets.yaml").write_text(yaml.safe_dump(presets))
    return tmp_path


def config(*overrides: str) -> Config:
    return load_config("grpo_tiny", overrides, {})


FILES = [
    f"data/tiny/processed/mixed_curriculum_{group}.parquet" for group in ("verifiable", "open")
]


@pytest.mark.row("G18")
def test_missing_files_are_written_beside_that_of_the_config(folder: Path) -> None:
    prepared = with_prepared_files(config(PHASES))
    assert prepared.listed("data.train_files") == FILES
    assert [len(list(read_rows(Path(file)))) for file in FILES] == [4, 1]


def test_files_that_exist_stay(folder: Path) -> None:
    with_prepared_files(config(PHASES))
    before = [Path(file).stat().st_mtime_ns for file in FILES]
    assert with_prepared_files(config(PHASES)).listed("data.train_files") == FILES
    assert [Path(file).stat().st_mtime_ns for file in FILES] == before


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        ([], "for a curriculum only"),
        ([PHASES, "data.train_files=[a.parquet,b.parquet]"], "a.parquet does not exist"),
        ([PHASES, "trainer.total_training_steps=1"], "has no step"),
    ],
)
def test_nothing_is_written_for_what_cannot_be(
    folder: Path, overrides: list[str], problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        with_prepared_files(config(*overrides))
    assert not Path("data").exists()


def test_sft_has_no_curriculum(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"grubrics\.curriculum is for GRPO, not for SFT"):
        with_prepared_files(load_config("sft_tiny", [PHASES], {}))


def test_a_dry_run_says_how_to_prepare_the_files(folder: Path) -> None:
    with pytest.raises(UsageError, match="prepare preset --name curriculum --only-cached"):
        with_prepared_files(config(PHASES), dry_run=True)
    assert not Path("data").exists()


def test_files_in_the_home_folder_are_written_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder / "home"))
    prepared = with_prepared_files(config(PHASES, "data.train_files=~/mixed/train.parquet"))
    assert [Path(file).parent for file in prepared.listed("data.train_files")] == [
        folder / "home/mixed"
    ] * 2
    assert all(Path(file).is_file() for file in prepared.listed("data.train_files"))


def test_a_config_of_sft_has_no_such_files(folder: Path) -> None:
    with pytest.raises(UsageError, match="is for GRPO, not for SFT"):
        with_prepared_files(load_config("sft_tiny", [PHASES], {}))
