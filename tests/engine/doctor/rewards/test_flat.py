"""Equal rewards: causes that look alike in the curves and need opposite fixes."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.checks.values import value_findings
from engine.doctor.metrics import RuleContext, metric_findings
from engine.doctor.rewards import merge_numbers, reward_findings
from engine.run.kinds import GRPO
from tests.engine.doctor.metrics.curves import columns
from tests.engine.doctor.rewards.records import GOLD, Make, Record, scored, write
from tests.engine.run.history.rollout_files import write_dump

WEIGHTS = {
    "reward_config.lambda_len": 0.1,
    "reward_config.lambda_info": 0.3,
    "reward_config.lambda_defense": 0.3,
    "reward_config.char_threshold": 3000,
    "data.max_response_length": 64,
    "actor_rollout_ref.rollout.temperature": 0.1,
}
CONTEXT = RuleContext(WEIGHTS, GRPO)


def empty(*place: int) -> Record:
    return scored(*place, rubric="  ", reward=-0.3, judge_scores=[0.0] * 3)


def flat_gold(*place: int) -> Record:
    return scored(*place, reward=0.267, gold_scores=[0.5] * 3)


def garbage(*place: int) -> Record:
    text = f"the the {place}"
    return scored(*place, rubric=text, reward=-0.3, judge_scores=[0.0] * 3)


def constant_judge(*place: int) -> Record:
    return scored(*place, reward=-0.3, judge_scores=[0.5] * 3)


def one_text(*place: int) -> Record:
    group = place[1]
    return scored(*place, rubric=f"Points: 1, Item: Is kind {group}.", reward=0.1 * group)


def all_right(*place: int) -> Record:
    return scored(*place, reward=1.3, judge_scores=GOLD)


def all_wrong(*place: int) -> Record:
    return scored(*place, reward=-0.5, judge_scores=[1.0, 0.4, 0.0])


def equal(*place: int) -> Record:
    return scored(*place, reward=0.1 * place[1])


def constant(*place: int) -> Record:
    return scored(*place, reward=0.25, judge_scores=None, gold_scores=[], parts=None)


CAUSES: dict[str, Make] = {
    "collapse_entropy_or_length.empty": empty,
    "data_missing_or_schema.flat_gold": flat_gold,
    "reward_zero_or_flat.no_rubric": garbage,
    "judge_parse_failure.constant": constant_judge,
    "collapse_entropy_or_length.one_text": one_text,
    "reward_zero_or_flat.all_wrong": all_wrong,
    "reward_zero_or_flat.equal": equal,
    "reward_zero_or_flat.constant": constant,
}


@pytest.mark.parametrize("id", CAUSES)
def test_the_cause_is_told_from_the_others(tmp_path: Path, id: str) -> None:
    path = write(tmp_path, scored, range(1, 5))
    write(tmp_path, CAUSES[id], range(5, 8))
    (one,) = reward_findings(path, CONTEXT)
    assert (one.id, one.severity, one.onset_step) == (id, "error", 5)
    assert one.fixes


@pytest.mark.parametrize("id", CAUSES)
def test_two_steps_are_enough(tmp_path: Path, id: str) -> None:
    path = write(tmp_path, CAUSES[id], range(1, 3))
    assert [finding.id for finding in reward_findings(path, CONTEXT)] == [id]


def test_texts_cut_at_the_cap_are_told_from_texts_of_another_format(tmp_path: Path) -> None:
    path = write(tmp_path, garbage, range(1, 4))
    cut = columns({"response_length/clip_ratio": [1.0, 1.0, 1.0]})
    whole = columns({"response_length/clip_ratio": [0.0, 0.1, 0.0]})
    (one,) = reward_findings(path, CONTEXT, cut)
    assert one.id == "reward_zero_or_flat.truncated"
    assert one.fixes[0].changes[0].key == "data.max_response_length"
    assert [finding.id for finding in reward_findings(path, CONTEXT, whole)] == [
        "reward_zero_or_flat.no_rubric"
    ]


def test_a_task_that_is_learned_is_no_alert_until_it_has_wasted_many_steps(tmp_path: Path) -> None:
    path = write(tmp_path, all_right, range(1, 6))
    assert [(finding.id, finding.severity) for finding in reward_findings(path, CONTEXT)] == [
        ("reward_zero_or_flat.all_right", "info")
    ]
    write(tmp_path, all_right, range(6, 30))
    assert [finding.severity for finding in reward_findings(path, CONTEXT)] == ["warning"]


def test_right_answers_that_earn_nothing_are_counted(tmp_path: Path) -> None:
    """The dump of verl beside the records has the ground truth."""

    def zero(*place: int) -> Record:
        return scored(*place, reward=0.0, judge_scores=None, gold_scores=[], parts=None)

    path = write(tmp_path, zero, range(1, 4))
    answers = [{"input": "q", "output": f" {n}\n", "gts": "7"} for n in (7, 7, 7, 8)]
    write_dump(tmp_path, 3, answers)
    (one,) = reward_findings(path, RuleContext())
    assert (one.id, "3 of 4" in one.cause) == ("reward_function_error.pays_nothing", True)
    write_dump(tmp_path, 3, answers[3:] * 60)
    (one,) = reward_findings(path, RuleContext())
    assert one.id == "reward_zero_or_flat.all_wrong"


def test_evidence_is_two_rollouts_of_a_group_and_one_of_another(tmp_path: Path) -> None:
    (one,) = reward_findings(write(tmp_path, all_wrong, range(1, 4)), CONTEXT)
    groups = [seen.values["group"] for seen in one.evidence]
    assert len(groups) == 3 and groups[0] == groups[1] != groups[2]
    assert "judge [1 0.4 0], gold [0 0.4 1]" in one.evidence[0].text
    assert one.evidence[0].values["alignment"] == 0.0


def test_answers_to_validation_are_not_counted_as_trained(tmp_path: Path) -> None:
    path = write(tmp_path, all_wrong, range(1, 3))
    write(tmp_path, lambda *place: {**all_wrong(*place), "split": "val"}, range(2, 3), groups=1)
    (finding,) = reward_findings(path, CONTEXT)
    assert "32 rollouts trained nothing" in finding.cause


def test_a_run_without_a_judge_has_no_judge_in_its_evidence(tmp_path: Path) -> None:
    (finding,) = reward_findings(write(tmp_path, constant, range(1, 4)), CONTEXT)
    assert ": reward 0.25 | " in finding.evidence[0].text


def test_groups_that_differ_are_healthy(tmp_path: Path) -> None:
    assert reward_findings(write(tmp_path, scored, range(1, 30)), CONTEXT) == []


def test_one_flat_step_among_others_is_healthy(tmp_path: Path) -> None:
    path = write(tmp_path, equal, range(1, 2))
    write(tmp_path, scored, range(2, 3))
    write(tmp_path, equal, range(3, 4))
    assert reward_findings(path, CONTEXT) == []


def test_few_groups_that_are_all_flat_by_chance_are_healthy(tmp_path: Path) -> None:
    """Half of the groups were flat before: eight in a row may come so, forty do not."""

    def make(step: int, group: int, rollout: int) -> Record:
        is_flat = step > 10 or group % 2 == 0
        return all_right(step, group, rollout) if is_flat else scored(step, group, rollout)

    path = write(tmp_path, make, range(1, 13))
    assert reward_findings(path, CONTEXT) == []
    write(tmp_path, make, range(13, 21))
    assert [finding.id for finding in reward_findings(path, CONTEXT)] == [
        "reward_zero_or_flat.all_right"
    ]


def test_gold_without_variance_in_some_rows_is_a_warning(tmp_path: Path) -> None:
    def make(*place: int) -> Record:
        return scored(*place, gold_scores=[0.5] * 3) if place[1] == 0 else scored(*place)

    (one,) = reward_findings(write(tmp_path, make, range(1, 6)), CONTEXT)
    assert (one.id, one.severity) == ("data_missing_or_schema.flat_gold_share", "warning")


def test_what_the_curves_say_of_the_same_is_folded_below(tmp_path: Path) -> None:
    path = write(tmp_path, constant_judge, range(1, 6))
    curves = columns({"reward/mean": [-0.3] * 5, "reward/zero_std_share": [1.0] * 5})
    both = merge_numbers(reward_findings(path, CONTEXT), metric_findings(curves, CONTEXT))
    assert [one.id for one in both] == ["judge_parse_failure.constant"]
    assert [consequence.category for consequence in both[0].followed_by] == ["reward_zero_or_flat"]


def test_a_value_of_the_config_is_the_root_of_what_it_does(tmp_path: Path) -> None:
    short = RuleContext({**WEIGHTS, "data.max_response_length": 4}, GRPO)
    path = write(tmp_path, garbage, range(1, 4))
    result = merge_numbers(reward_findings(path, short), [], value_findings(short))
    assert [(one.id, one.severity) for one in result if one.severity != "info"] == [
        ("reward_zero_or_flat.cap_too_short", "error")
    ]
    assert [consequence.id for consequence in result[0].followed_by] == [
        "reward_zero_or_flat.truncated"
    ]


def test_a_policy_that_collapsed_explains_the_texts_that_are_no_rubrics(tmp_path: Path) -> None:
    path = write(tmp_path, scored, range(1, 11))
    write(tmp_path, garbage, range(11, 21))
    curves = columns({"response_length/clip_ratio": [0.05] * 10 + [1.0] * 10})
    result = merge_numbers(reward_findings(path, CONTEXT, curves), metric_findings(curves, CONTEXT))
    assert [one.id for one in result] == ["collapse_entropy_or_length.length_cap"]
    assert [consequence.id for consequence in result[0].followed_by] == [
        "reward_zero_or_flat.truncated"
    ]
