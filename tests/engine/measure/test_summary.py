"""What an evaluation says, computed from its lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from engine.base import jsonl
from engine.base.errors import UsageError
from engine.base.typed import to_json
from engine.measure.folder import ScoreRow, TargetDir
from engine.measure.measures import Metric, metrics_of
from engine.measure.summary import TargetRows, compare_targets, find_results, settle_scale
from tests.engine.measure.evaluation_rows import make_rows

REWARD = Metric("reward", worst=0.0, scale="rate")


def result_of(target: TargetRows, metric: str = "reward", samples: int = 2) -> dict[str, object]:
    results = find_results(target, [REWARD], samples)
    return next(result.to_json() for result in results if result.metric == metric)


def verdict_of(a: TargetRows, b: TargetRows) -> dict[str, object]:
    return compare_targets([a], [b], [REWARD])[0].to_json()


def test_the_samples_of_an_item_are_one_cluster() -> None:
    result = result_of(make_rows("run", [[0.0, 0.2], [0.8, 1.0], [0.4, 0.6]]))
    of_means = result_of(make_rows("run", [[0.1], [0.9], [0.5]]))
    assert (result["n"], result["items"]) == (6, 3)
    assert result["ci"] == pytest.approx(of_means["ci"])


def test_an_answer_without_a_score_is_counted_and_is_no_zero() -> None:
    result = result_of(make_rows("run", [[1.0], [1.0], [None], [1.0]]))
    assert (result["mean"], result["n"], result["unscored"]) == (1.0, 3, 1)
    if_wrong = result_of(make_rows("run", [[1.0], [1.0], [0.0], [1.0]]))
    assert (result["mean_if_unscored_wrong"], if_wrong["mean"]) == (0.75, 0.75)
    assert result["ci_if_unscored_wrong"] == if_wrong["ci"] != result["ci"]


@pytest.mark.parametrize("damage", [{"reward": "0.5"}, {"sample": None}])
def test_a_damaged_line_replaces_no_score(tmp_path: Path, damage: dict[str, object]) -> None:
    folder = TargetDir(tmp_path)
    row = to_json(ScoreRow("item", 0, 0.5, {"info": 1.0}))
    for line in (row, {**row, **damage}):
        jsonl.append(folder.scores, line)
    assert folder.read_scores() == {("item", 0): ScoreRow("item", 0, 0.5, {"info": 1.0})}


def test_a_target_without_any_score_has_no_mean() -> None:
    result = result_of(make_rows("run", [[None], [None]]))
    assert (result["mean"], result["ci"], result["unscored"]) == (None, None, 2)


@pytest.mark.row("H25")
def test_several_samples_have_a_best_and_pass_at_k() -> None:
    target = make_rows("run", [[0.0, 1.0], [0.0, 0.0]])
    assert result_of(target, "best@2")["mean"] == 0.5
    assert result_of(target, "pass@2")["mean"] == 0.5


@pytest.mark.row("H25")
def test_four_samples_have_a_mean_and_a_best() -> None:
    target = make_rows("run", [[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    mean, best, right = (
        result_of(target, name, samples=4) for name in ("reward", "best@4", "pass@4")
    )
    assert (mean["n"], mean["mean"]) == (8, 0.125)
    assert (best["mean"], right["mean"]) == (0.5, 0.5)


def test_graded_scores_have_no_pass_at_k() -> None:
    results = find_results(make_rows("run", [[0.0, 0.7], [0.2, 0.1]]), [REWARD], 2)
    assert [result.metric for result in results] == ["reward", "best@2"]


def test_an_item_with_a_score_too_few_is_left_out_of_best_at_k() -> None:
    best = result_of(make_rows("run", [[0.0, 1.0, 0.0], [1.0, 1.0, None]]), "best@3", 3)
    assert (best["mean"], best["items"], best["left_out"]) == (1.0, 1, 1)


def test_best_at_k_without_a_complete_item_has_no_mean() -> None:
    best = result_of(make_rows("run", [[0.5, None], [None, 0.5]]), "best@2")
    assert (best["mean"], best["left_out"]) == (None, 2)


def test_one_answer_per_item_has_no_best() -> None:
    results = find_results(make_rows("run", [[0.5], [0.7]]), [REWARD], 1)
    assert [result.metric for result in results] == ["reward"]


def test_a_target_equal_to_its_baseline_is_identical() -> None:
    rewards = [[0.3], [0.5], [0.1]]
    pair = verdict_of(make_rows("sft", rewards), make_rows("run", rewards))
    assert (pair["verdict"], pair["difference"]) == ("identical", 0.0)


def test_a_clear_gain_on_every_item_is_better() -> None:
    noise = np.random.default_rng(0).normal(0, 0.05, size=(2, 40))
    pair = verdict_of(
        make_rows("sft", [[0.2 + x] for x in noise[0]]),
        make_rows("run", [[0.4 + x] for x in noise[1]]),
    )
    assert pair["verdict"] == "better"
    assert pair["n"] == 40


def test_an_undecided_comparison_says_how_many_items_would_decide() -> None:
    noise = np.random.default_rng(1).normal(0, 1.0, size=20)
    pair = verdict_of(make_rows("sft", [[0.0]] * 20), make_rows("run", [[0.05 + x] for x in noise]))
    assert pair["verdict"] == "undecided"
    assert isinstance(pair["needed"], int)
    assert pair["needed"] > 20


def test_an_item_that_one_side_has_no_score_for_is_left_out() -> None:
    pair = verdict_of(
        make_rows("sft", [[0.1], [None], [0.3]]), make_rows("run", [[0.1], [0.9], [0.3]])
    )
    assert (pair["n"], pair["left_out"], pair["verdict"]) == (2, 1, "identical")


def test_a_missing_item_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="item 'q2' is in run and not in sft"):
        verdict_of(make_rows("sft", [[1.0]], ["q1"]), make_rows("run", [[1.0]] * 2, ["q1", "q2"]))


def test_an_item_that_changed_is_refused_by_name() -> None:
    run = make_rows("run", [[1.0]] * 2)
    changed = structs.replace(run.answers["item-1", 0], item_sha256="other")
    run = replace(run, answers={**run.answers, ("item-1", 0): changed})
    with pytest.raises(UsageError, match="item 'item-1' differs between sft and run"):
        verdict_of(make_rows("sft", [[1.0]] * 2), run)


def test_scores_of_0_and_1_have_the_interval_of_a_rate() -> None:
    wilson = pytest.approx([0.8389, 1.0], abs=1e-4)
    assert result_of(make_rows("run", [[1.0]] * 20))["ci"] == wilson
    of_samples = make_rows("run", [[1.0, 1.0]] * 20)
    assert [result_of(of_samples, name)["ci"] for name in ("reward", "pass@2")] == [wilson] * 2


def scale_of(*rewards: Sequence[float]) -> str:
    """The scale of a function that declares nothing, with the scores of several targets."""
    targets = [make_rows(f"run-{n}", [[one] for one in each]) for n, each in enumerate(rewards)]
    return settle_scale(Metric("reward", 0.0, "undeclared"), targets).scale


def test_undeclared_scores_are_a_rate_if_both_0_and_1_occur() -> None:
    assert scale_of([0.0, 1.0], [0.0, 0.0]) == "rate"
    assert scale_of([0.0] * 40) == scale_of([1.0] * 40) == "graded"
    assert scale_of([0.0, 1.0], [1.2]) == "graded"


def test_a_task_declares_whether_its_scores_are_a_rate() -> None:
    def scale(function: str, **arguments: float) -> str:
        return metrics_of({"function": function, "files": {}, "kwargs": arguments})[0].scale

    assert scale("task questions") == scale("task puzzles", partial_credit=0.0) == "rate"
    assert scale("task questions", marked_score=0.1) == scale("task puzzles") == "graded"
    assert scale("task code", partial_credit=0.5) == scale("task workflows") == "graded"
    assert scale("rewards.py:compute_score") == "undeclared"


def test_an_interval_ends_at_the_bounds_of_its_metric() -> None:
    target = make_rows("run", [[1.0]] * 9 + [[0.9]])
    [result] = find_results(target, [Metric("reward", 0.0, bounds=(0.0, 1.0))])
    assert result.to_json()["ci"] == pytest.approx([0.9674, 1.0], abs=1e-4)


def test_scores_from_0_to_a_1_that_occurs_are_shares() -> None:
    def interval(*scores: float) -> list[float]:
        target = make_rows("run", [[score] for score in scores])
        metric = settle_scale(Metric("reward", 0.0, "undeclared"), [target])
        return find_results(target, [metric])[0].to_json()["ci"]

    assert interval(*[1.0] * 9, 0.9)[1] == 1.0
    assert interval(*[1.0] * 9, 1.1)[1] > 1.0


def test_a_rate_of_several_samples_ends_at_0_and_1() -> None:
    assert result_of(make_rows("run", [[0.0, 0.0], [0.0, 1.0]]))["ci"] == [0.0, 1.0]


def test_a_task_declares_the_numbers_beside_its_score() -> None:
    scoring = {"function": "task reading", "files": {}, "kwargs": {}}
    assert [metric.name for metric in metrics_of(scoring)] == ["reward", "f1"]


def test_correlations_of_0_and_1_are_no_rate() -> None:
    target = make_rows("run", [[1.0], [1.0], [0.0], [1.0]])
    [result] = find_results(target, [Metric("reward", worst=-1.0)])
    assert result.to_json()["ci"] == pytest.approx([-0.0456, 1.5456], abs=1e-4)


def test_items_that_repeat_a_prompt_are_one_cluster() -> None:
    once = make_rows("run", [[0.2], [0.9], [0.4]])
    repeated = make_rows("run", [[0.2], [0.2], [0.9], [0.9], [0.4], [0.4]])
    answers = {
        key: structs.replace(row, prompt_sha256=f"prompt-{number // 2}")
        for number, (key, row) in enumerate(repeated.answers.items())
    }
    repeated = replace(repeated, answers=answers)
    assert result_of(repeated)["ci"] == pytest.approx(result_of(once)["ci"])
    base = replace(repeated, name="base", scores=make_rows("base", [[0.0]] * 6).scores)
    p = verdict_of(make_rows("base", [[0.0]] * 3), once)["p"]
    assert verdict_of(base, repeated)["p"] == pytest.approx(p)


def test_scores_whose_answers_are_gone_do_not_count() -> None:
    target = make_rows("run", [[0.0], [1.0]])
    [key, *_] = target.answers
    target = replace(target, answers={key: target.answers[key]})
    assert (result_of(target)["n"], result_of(target)["unscored"]) == (1, 0)


def test_a_wrong_answer_of_a_function_with_negative_scores_has_no_known_score() -> None:
    assert result_of(make_rows("run", [[-1.0], [None]]))["mean_if_unscored_wrong"] is None


def test_the_most_frequent_reason_for_missing_scores_is_named() -> None:
    assert result_of(make_rows("run", [[0.5], [None]]))["why_unscored"] == "timeout: no reply"


LOSS = Metric("loss", None, lower_is_better=True)


def losses(name: str, values: Sequence[float], tokens: Sequence[int]) -> TargetRows:
    rows = make_rows(name, [[None]] * len(values))
    answers = {
        key: structs.replace(row, answer=None, tokens=count, loss=value)
        for (key, row), value, count in zip(rows.answers.items(), values, tokens, strict=True)
    }
    scores = {
        (uid, n): ScoreRow(uid, n, None, {"loss": row.loss or 0.0})
        for (uid, n), row in answers.items()
    }
    return TargetRows(name, answers, scores)


def test_a_loss_is_given_by_conversation_and_by_token() -> None:
    results = find_results(losses("run", [1.0, 3.0], [30, 10]), [LOSS])
    means = {r.metric: r.estimate.mean for r in results if r.estimate is not None}
    assert means == {"loss": 2.0, "loss_per_token": 1.5}
    assert results[0].unscored == 0


def test_a_lower_loss_is_better() -> None:
    base = losses("base", [2.0, 2.1, 2.2, 2.3], [5] * 4)
    run = losses("run", [1.0, 1.2, 1.1, 1.4], [5] * 4)
    [pair] = compare_targets([base], [run], [LOSS])
    assert pair.comparison.verdict == "better"
    assert pair.comparison.difference.mean < 0


def test_losses_of_other_tokens_are_not_compared() -> None:
    with pytest.raises(
        UsageError, match="item 'item-1' has 5 response tokens for base and 6 for run"
    ):
        compare_targets([losses("base", [1, 2], [5, 5])], [losses("run", [1, 2], [5, 6])], [LOSS])
