"""A config may forbid defaults and other data than it names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.base.errors import UsageError
from engine.base.files import content_hash
from engine.checks.check import Check
from engine.checks.complete_change import parse_fix
from engine.checks.demands import silent_defaults
from tests.engine.checks.project import Project

pytestmark = pytest.mark.long

FORBID = "grubrics.no_silent_defaults=true"


def config_check(project: Project, name: str, *overrides: str) -> Check:
    return project.checks(name, *overrides)["config"]


def expecting(*hashes: str) -> str:
    return f"grubrics.expect_data=[{','.join(repr(each) for each in hashes)}]"


@pytest.fixture
def hashes(project: Project) -> tuple[str, str]:
    """Of the training file and of the validation file."""
    data = project.root / "data"
    return content_hash(data / "train.parquet"), content_hash(data / "val.parquet")


@pytest.mark.row("H04")
@pytest.mark.parametrize(
    ("name", "key"), [("grpo", "actor_rollout_ref.actor.clip_ratio"), ("sft", "training.seed")]
)
def test_a_forbidden_default_is_named_and_its_fix_sets_it(
    project: Project, name: str, key: str
) -> None:
    check = config_check(project, name, FORBID)
    assert check.status == "fail"
    assert key in check.message
    fix = parse_fix(check.fix or "", project.config(name, FORBID))
    assert fix is not None
    assert config_check(project, name, FORBID, *fix.overrides).status != "fail"


def test_null_is_no_seed_of_the_data_and_the_fix_has_one(project: Project) -> None:
    overrides = (FORBID, "grubrics.seed=7", "data.seed=null")
    check = config_check(project, "grpo", *overrides)
    assert check.status == "fail" and "data.seed" in check.message
    assert "data.seed=7" in (check.fix or "").split()


@pytest.mark.parametrize("name", ["grpo", "sft"])
def test_either_the_epochs_or_the_steps_are_enough(project: Project, name: str) -> None:
    config = project.config(name, FORBID)
    epochs, steps = {
        "grpo": ("trainer.total_epochs", "trainer.total_training_steps"),
        "sft": ("training.num_train_epochs", "training.max_steps"),
    }[name]
    bare = replace(config, origins={**config.origins, epochs: "default", steps: "default"})
    assert silent_defaults(bare)[epochs] is not None
    assert epochs not in silent_defaults(replace(bare, origins={**bare.origins, epochs: "file"}))


def test_defaults_are_allowed_unless_the_config_forbids_them(project: Project) -> None:
    assert config_check(project, "grpo").status != "fail"


@pytest.mark.row("H10")
def test_the_expected_data_pass(project: Project, hashes: tuple[str, str]) -> None:
    train, val = hashes
    assert project.checks("grpo", expecting(val, train[:12].upper()))["parquet"].status == "ok"


@pytest.mark.row("H10")
def test_a_file_with_another_hash_is_named_with_its_hash(
    project: Project, hashes: tuple[str, str]
) -> None:
    train, val = hashes
    check = project.checks("grpo", expecting(train))["parquet"]
    assert check.status == "fail"
    assert f"data/val.parquet: its SHA-256 {val} is not in" in check.message


def test_a_file_in_the_home_folder_is_found(
    project: Project, hashes: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project.root))
    home = "data.train_files=~/data/train.parquet"
    assert project.checks("grpo", home, expecting(*hashes))["parquet"].status != "fail"


def test_a_hash_without_a_file_is_named(project: Project, hashes: tuple[str, str]) -> None:
    check = project.checks("grpo", expecting(*hashes, "abcdef0123"))["parquet"]
    assert check.message.startswith("grubrics.expect_data: no data file has the SHA-256 abcdef0123")


def test_what_is_no_hash_is_refused(project: Project) -> None:
    with pytest.raises(UsageError, match=r"grubrics\.expect_data.*'train': give the 64 hex digits"):
        project.config("grpo", "grubrics.expect_data=[train]")


@pytest.mark.row("H02")
def test_a_config_of_a_newer_version_is_refused(project: Project) -> None:
    refused = "reads configs of version 1; a newer config needs a newer program"
    with pytest.raises(UsageError, match=refused):
        project.config("grpo", "grubrics.version=2")
