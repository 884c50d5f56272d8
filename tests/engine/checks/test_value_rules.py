"""Values with which nothing can be learned; configs that people train with have none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from engine.checks.values import value_findings
from engine.config.compose import TEMPERATURE_SCHEDULE
from engine.config.load import load_config
from engine.doctor.metrics import RuleContext
from engine.run.kinds import GRPO
from tests.engine.doctor.metrics.curves import alerts
from tests.paths import CONFIGS


def context(config: str, **changed: Any) -> RuleContext:
    loaded = load_config(str(CONFIGS / f"{config}.yaml"))
    values: Mapping[str, Any] = {**loaded.values, **changed}
    return RuleContext(values, loaded.kind)


@pytest.mark.parametrize(
    "config", ["grpo_tiny", "sft_tiny", "verl_grpo", "verl_grpo_debug", "sft_healthbench"]
)
def test_the_configs_of_the_project_have_no_alert(config: str) -> None:
    assert alerts(value_findings(context(config))) == []


@pytest.mark.parametrize(
    ("key", "value", "id"),
    [
        ("actor_rollout_ref.actor.optim.lr", 0.2, "kl_or_grad_blowup.rate"),
        ("data.max_response_length", 4, "reward_zero_or_flat.cap_too_short"),
        (
            "actor_rollout_ref.rollout.temperature",
            0.0,
            "collapse_entropy_or_length.temperature",
        ),
        ("actor_rollout_ref.rollout.n", 1, "reward_zero_or_flat.no_group"),
    ],
)
def test_a_value_that_teaches_nothing_comes_with_one_that_does(
    key: str, value: float, id: str
) -> None:
    result = [
        finding
        for finding in value_findings(context("grpo_tiny", **{key: value}))
        if finding.id == id
    ]
    (change,) = result[0].fixes[0].changes
    assert (change.key, change.before) == (key, value)


def test_the_coldest_end_of_a_schedule_counts() -> None:
    ends = {
        f"{TEMPERATURE_SCHEDULE}.initial": 0.5,
        f"{TEMPERATURE_SCHEDULE}.final": 0.01,
        f"{TEMPERATURE_SCHEDULE}.steps": 150,
    }
    scheduled = context("grpo_tiny", **ends, **{"actor_rollout_ref.rollout.temperature": 0.01})
    (finding,) = value_findings(scheduled)
    assert finding.id == "collapse_entropy_or_length.temperature"
    assert finding.fixes[0].changes[0].key == f"{TEMPERATURE_SCHEDULE}.final"


RATE = "actor_rollout_ref.actor.optim.lr"


@pytest.mark.parametrize(("in_file", "offered"), [(2e-4, 2e-4), (0.5, 1e-5), ("much", 1e-5)])
def test_a_sound_value_of_the_configs_file_is_the_one_to_go_back_to(
    in_file: object, offered: float
) -> None:
    unhealthy = replace(context("grpo_tiny", **{RATE: 0.2}), in_file={RATE: in_file})
    (result,) = value_findings(unhealthy)
    assert result.fixes[0].changes[0].after == offered


def test_a_supervised_rate_has_a_key_of_its_own() -> None:
    findings = value_findings(context("sft_tiny", **{"training.learning_rate": 3.0}))
    assert [finding.fixes[0].changes[0].key for finding in findings] == ["training.learning_rate"]


def test_another_reward_may_want_one_token() -> None:
    custom = {"reward.custom_reward_function.path": "mine.py", "data.max_response_length": 1}
    assert alerts(value_findings(context("grpo_tiny", **custom))) == []


def test_an_unknown_config_has_nothing_to_find() -> None:
    assert value_findings(RuleContext(kind=GRPO)) == []
