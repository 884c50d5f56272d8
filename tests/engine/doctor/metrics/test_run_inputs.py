"""What goes in: prompts and rewards that cannot be."""

from __future__ import annotations

import numpy as np
import pytest

from engine.doctor.metrics import RuleContext, metric_findings
from tests.engine.doctor.metrics.curves import WEIGHTS, alerts_of, columns


def test_prompts_of_three_tokens_are_empty() -> None:
    assert alerts_of({"prompt_length/max": [3.0, 3.0, 3.0]}) == [
        "data_missing_or_schema.empty_prompt"
    ]
    assert alerts_of({"prompt_length/max": [25.0, 25.0]}) == []
    assert alerts_of({"prompt_length/max": [3.0, 7.0, 4.0]}) == []


def test_short_prompts_that_differ_within_a_batch_hold_questions() -> None:
    lengths = {"prompt_length/max": [8.0, 8.0, 8.0], "prompt_length/mean": [6.5, 6.4, 6.6]}
    assert alerts_of(lengths) == []


CUT = {
    "prompt_length/max": [212.0, 256.0, 190.0, 256.0],
    "prompt_length/mean": [60.0, 80.0, 60.0, 80.0],
    "prompt_length/min": [46.0, 46.0, 46.0, 46.0],
    "prompt_length/clip_ratio": [0.0, 0.25, 0.0, 0.25],
}
LIMIT = {"data.max_prompt_length": 256, "data.filter_overlong_prompts": False}


def test_prompts_cut_to_the_limit() -> None:
    (one,) = metric_findings(columns(CUT), RuleContext(config=LIMIT))
    assert (one.id, one.severity, one.onset_step) == (
        "data_missing_or_schema.cut_prompt",
        "warning",
        2,
    )
    assert one.title == "Prompts are truncated to 256 tokens"


def test_most_prompts_cut_is_an_error() -> None:
    curves = {**CUT, "prompt_length/max": [256.0] * 4, "prompt_length/clip_ratio": [0.75] * 4}
    (one,) = metric_findings(columns(curves), RuleContext(config=LIMIT))
    assert one.severity == "error"


def test_a_clip_ratio_is_believed_only_where_the_longest_prompt_equals_the_limit() -> None:
    longer = {**LIMIT, "data.max_prompt_length": 512}
    dropped = {**LIMIT, "data.filter_overlong_prompts": True}
    for config in (longer, dropped):
        assert metric_findings(columns(CUT), RuleContext(config=config)) == []
    assert alerts_of(CUT) == []


def test_a_reward_beyond_what_the_formula_allows() -> None:
    assert RuleContext(WEIGHTS).reward_range == (-1.3, 1.3)
    top = [1.3, 1.3, 14.0, 1.3]
    assert alerts_of({"reward/max": top}, config=WEIGHTS) == ["reward_function_error.out_of_range"]
    assert alerts_of({"reward/max": [1.3] * 4, "reward/min": [-1.3] * 4}, config=WEIGHTS) == []


def test_a_single_reward_far_from_all_others_where_no_limit_is_known() -> None:
    bottom = np.full(30, -0.1)
    bottom[12] = -10.5
    curves = {"reward/max": np.full(30, 1.95), "reward/min": bottom}
    (one,) = metric_findings(columns(curves))
    assert (one.id, one.onset_step) == ("reward_function_error.outlier", 13)


@pytest.mark.parametrize("usual", [0.0, 0.3])
def test_a_rare_success_is_no_outlier(usual: float) -> None:
    top = np.full(60, usual)
    top[50] = 2.0
    assert alerts_of({"reward/max": top, "reward/min": np.zeros(60)}) == []


def test_another_reward_function_has_no_known_limits() -> None:
    own = {**WEIGHTS, "reward.custom_reward_function.path": "mine.py"}
    assert RuleContext(own).reward_range is None
    assert RuleContext().reward_range is None
