"""Where a function of the config's own gives the rewards, nothing speaks of a judge."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.checks.environment import needed_modules
from engine.checks.estimate.report import estimate
from engine.config.load import Config
from engine.config.steps import step_plan
from engine.doctor.judge_test import run_test
from engine.launch.ray_target import needed_variables
from grubrics_tui.screens.preflight.launch import step_facts
from grubrics_tui.screens.preflight.screen import config_facts
from tests.engine.checks.project import Project, row

pytestmark = pytest.mark.long

OWN = ("reward.custom_reward_function.path=rw.py", "judge.provider=azure")


@pytest.fixture
def config(project: Project) -> Config:
    """Its judge section asks for credentials that are not there; nothing reads it."""
    Path("rw.py").write_text("def compute_score(**_):\n    return 1.0\n")
    return project.config("grpo", *OWN)


def test_the_preflight_asks_for_no_judge(project: Project, config: Config) -> None:
    checks = project.checks("grpo", *OWN)
    assert checks["credentials"].status == "ok"
    assert checks["judge"].status == "skip"
    assert "16 rewards per step" in checks["batch"].message
    assert "16 rewards per step" in checks["steps"].message
    others = [checks[name].message for name in checks if name not in ("judge", "credentials")]
    assert not [message for message in others if "judge call" in message]


@pytest.mark.parametrize(
    ("kind", "file", "changes", "reason"),
    [
        ("sft", "train_file", (), "SFT does not use a judge"),
        ("grpo", "train_files", OWN, "no judge is used"),
    ],
)
def test_where_no_judge_is_asked_missing_data_is_not_the_reason(
    project: Project, config: Config, kind: str, file: str, changes: tuple[str, ...], reason: str
) -> None:
    checks = project.checks(kind, f"data.{file}=gone.parquet", *changes)
    assert checks["parquet"].status == "fail"
    assert checks["judge"].status == "skip" and reason in checks["judge"].message


def test_a_missing_file_is_not_advised_to_be_made_of_rubric_data(
    project: Project, config: Config
) -> None:
    checks = project.checks(
        "grpo", *OWN, "data.train_files=no.parquet", "actor_rollout_ref.model.path=no/final"
    )
    fixes = " ".join(check.fix or "" for check in checks.values())
    assert "grubrics-tui prepare DATA" in fixes
    assert "engine.data.prepare" not in fixes and "sft_healthbench" not in fixes


def test_validation_rows_in_the_training_file_are_not_advised_to_be_prepared_again(
    project: Project, config: Config
) -> None:
    project.write("data/val.parquet", [row(3)], split="val")
    check = project.checks("grpo", *OWN)["holdout"]
    assert check.fix is not None and "engine.data.prepare" not in check.fix


def test_estimates_plans_and_screens_count_rewards(project: Project, config: Config) -> None:
    assert estimate(config, {}, project.root / "runs").judge is None
    facts = [*step_facts(config, step_plan(config)), *config_facts(config)]
    text = " ".join(f"{name} {value}" for name, value in facts)
    assert "rewards come from rw.py:compute_score" in text
    assert "16 rewards" in text and "judge calls" not in text


def test_no_package_or_variable_of_a_judge_is_needed(config: Config) -> None:
    assert "openai" not in needed_modules(config)
    assert needed_variables(config) == ()


def test_there_is_no_judge_to_test(config: Config) -> None:
    with pytest.raises(UsageError, match=r"does not use a judge: .* rw\.py:compute_score"):
        run_test(config, {}, 1)
