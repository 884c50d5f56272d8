"""What of the fix of a check one key can apply."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.checks.complete_change import CheckFix, parse_fix
from engine.config.load import Config
from tests.engine.checks.project import make_project

BATCH = "data.train_batch_size"
EPOCHS = "trainer.total_epochs"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.chdir(tmp_path)
    return make_project(tmp_path).config("grpo")


@pytest.mark.parametrize(
    ("text", "overrides"),
    [
        (f"{BATCH}=4", [f"{BATCH}=4"]),
        (f"{BATCH}=4 {EPOCHS}=2", [f"{BATCH}=4", f"{EPOCHS}=2"]),
        (f"{BATCH}=4; {EPOCHS}=2", [f"{BATCH}=4", f"{EPOCHS}=2"]),
        (f"{BATCH}=4, or {EPOCHS}=2", [f"{BATCH}=4"]),
        (f"export RAY_ADDRESS=HOST:PORT, or {EPOCHS}=2", [f"{EPOCHS}=2"]),
    ],
)
def test_values_are_overrides(config: Config, text: str, overrides: list[str]) -> None:
    assert parse_fix(text, config) == CheckFix(tuple(overrides))


@pytest.mark.parametrize(
    "text",
    [
        None,
        "remove it",
        "chmod 600 .env",
        "pip install verl==0.9.1",
        "grubrics-tui keys set NAME writes it into .env; the environment takes precedence",
        "check the spelling; for a private model, set HF_TOKEN: grubrics-tui keys set HF_TOKEN",
        "trainer.default_local_dir=FOLDER (on a larger disk)",
        f"{BATCH}=<a number>",
        "grubrics-tui launch CONFIG",
    ],
)
def test_what_a_person_has_to_do_is_left_to_a_person(config: Config, text: str | None) -> None:
    assert parse_fix(text, config) is None


def test_a_command_of_this_project_is_started_with_this_python(config: Config) -> None:
    fix = parse_fix("to continue it: grubrics-tui resume first", config)
    assert fix is not None
    assert fix.argv()[-2:] == ("resume", "first")


def test_a_command_may_come_with_variables_and_a_value(config: Config) -> None:
    command = "USE_CONTRASTIVE=0 python -m engine.data.prepare preset --output_dir data"
    fix = parse_fix(f"{command}, then data.train_files=data/mixed_train.parquet", config)
    assert fix == CheckFix(("data.train_files=data/mixed_train.parquet",), command)
    assert fix.variables() == {"USE_CONTRASTIVE": "0"}
    assert fix.argv()[-4:] == ("engine.data.prepare", "preset", "--output_dir", "data")
