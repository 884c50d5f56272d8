"""Fixes change values that configs really have, and are advice where the config is unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.config.load import load_config
from engine.doctor.metrics import RuleContext, metric_findings
from engine.run import fixes
from engine.run.finding import Change
from engine.run.finding_kind import Case
from engine.run.kinds import GRPO, SFT
from tests.engine.doctor.metrics.curves import columns, everything, healthy
from tests.engine.doctor.metrics.test_onset import FAULTS, STEPS
from tests.paths import CONFIGS


def changes(context: RuleContext, id: str) -> list[Change]:
    curves = healthy(4, STEPS)
    for fault in FAULTS[id]:
        fault(curves, 60)
    findings = everything(metric_findings(columns(curves), context))
    return [change for finding in findings for fix in finding.fixes for change in fix.changes]


@pytest.mark.parametrize("config", ["grpo_tiny", "verl_grpo"])
@pytest.mark.parametrize("id", FAULTS)
def test_every_change_is_one_of_the_config(config: str, id: str) -> None:
    values = load_config(str(CONFIGS / f"{config}.yaml")).values
    for change in changes(RuleContext(values, GRPO), id):
        assert change.kind == "config"
        assert change.key in values
        assert change.before == values[change.key]
        assert change.after != change.before


@pytest.mark.parametrize("id", FAULTS)
def test_an_external_run_gets_advice_only(id: str) -> None:
    assert changes(RuleContext(), id) == []


def test_the_learning_rate_of_either_kind_of_config() -> None:
    sft = RuleContext({"training.learning_rate": 2e-5}, SFT)
    (change,) = fixes.lower_rate(Case(sft)).changes
    assert (change.key, change.after) == ("training.learning_rate", pytest.approx(2e-6))


def test_a_fix_of_the_length_switches_a_schedule_off() -> None:
    steps = "grubrics.response_length_schedule.steps"
    scheduled = RuleContext({fixes.RESPONSE: 64, steps: 150}, GRPO)
    changed = fixes.longer_responses(Case(scheduled)).changes
    assert {change.key: change.after for change in changed} == {fixes.RESPONSE: 128, steps: None}


def test_a_fix_of_the_temperature_switches_a_schedule_off() -> None:
    steps = "grubrics.temperature_schedule.steps"
    scheduled = RuleContext({fixes.TEMPERATURE: 0.7, steps: 150}, GRPO)
    changed = fixes.sample_at_1(Case(scheduled), "texts differ").changes
    assert {change.key: change.after for change in changed} == {fixes.TEMPERATURE: 1.0, steps: None}


def test_a_rate_that_an_override_raised_goes_back_to_the_files() -> None:
    sft = RuleContext({"training.learning_rate": 1e-3}, SFT)
    raised = replace(sft, in_file={"training.learning_rate": 2e-5})
    assert [fixes.lower_rate(Case(one)).changes[0].after for one in (sft, raised)] == [1e-4, 2e-5]


def test_other_numbers_have_three_figures_as_a_person_writes_them() -> None:
    sft = RuleContext({"training.learning_rate": 2e-5}, SFT)
    (change,) = fixes.lower_rate(Case(sft)).changes
    assert str(change.after) == "2e-06"  # 2e-05 x 0.1 is 2.0000000000000003e-06


def test_whole_numbers_stay_whole_and_positive() -> None:
    context = RuleContext({"a": 1, "b": True, "c": 0})
    assert fixes.scaled(context, "a", 0.2, "t", "e").changes == ()
    assert fixes.scaled(context, "b", 2, "t", "e").changes == ()
    assert fixes.scaled(context, "c", 2, "t", "e").changes == ()


def test_advice_that_is_in_force_already_is_left_out() -> None:
    """The weight of a KL loss that a log shows can be raised; an entropy bonus of 0 is off."""
    assert "Raise" in fixes.add_kl_loss(Case(RuleContext(logs_kl=True))).title
    entropy = [0.5] * 20 + [4.0] * 20
    off = RuleContext({f"{fixes.ACTOR}.entropy_coeff": 0}, GRPO, checkpoints=(30,))
    one, *_ = metric_findings(columns({"actor/entropy": entropy}), off)
    titles = " ".join(fix.title for fix in one.fixes)
    assert "bonus" not in titles and "checkpoint" not in titles


def test_advice_for_equal_groups_depends_on_the_level_of_the_reward() -> None:
    equal = [0.9] * 40
    for mean, word in (([0.006, 0.004] * 20, "asier"), ([0.994, 0.999] * 20, "arder")):
        curves = {"reward/mean": mean, "reward/max": [1.0] * 40, "reward/min": [0.0] * 40}
        found = metric_findings(columns({**curves, "reward/zero_std_share": equal}))
        titles = " ".join(fix.title for fix in found[0].fixes)
        assert word in titles
