"""The table of an ablation, from runs whose numbers are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import pytest

from engine.base.paired_comparison import compare_paired
from engine.measure.ablations.plan import BASE, AblationPlan, Arm
from engine.measure.ablations.table import ArmRow, SeedRun, find_worse, make_table
from engine.run.state import RunState

STEP_S = 10.0


def seed_run(
    seed: int, values: Mapping[int, float], step_s: float = STEP_S, step_tokens: float | None = None
) -> SeedRun:
    last = max(values, default=0)
    times = {step: step * step_s for step in range(last + 1)}
    tokens = {step: step * step_tokens for step in times} if step_tokens else {}
    return SeedRun(f"run-s{seed}", seed, RunState("finished"), values, times, tokens)


def table(
    base: Sequence[SeedRun], *arms: Sequence[SeedRun], lower_is_better: bool = False
) -> list[ArmRow]:
    names = [BASE, *(f"arm-{number}" for number in range(len(arms)))]
    runs = dict(zip(names, [base, *arms], strict=True))
    return make_table(plan_of(runs), runs, lower_is_better=lower_is_better)


def plan_of(runs: Mapping[str, Sequence[SeedRun]], *, stop_worse: bool = False) -> AblationPlan:
    arms = tuple(Arm(name, (), {}) for name in runs)
    return AblationPlan("a", "c", "grpo", arms, tuple(r.seed for r in runs[BASE]), 20, stop_worse)


def final(values: Sequence[float], step: int = 20) -> list[SeedRun]:
    return [seed_run(seed, {step: value}) for seed, value in enumerate(values, start=1)]


def test_the_same_config_twice_differs_by_exactly_0_and_is_identical() -> None:
    values = [0.31, 0.47, 0.29]
    row = table(final(values), final(values))[1]
    assert row.verdict == "identical"
    assert row.to_json()["difference"] == 0.0


def test_a_large_effect_over_three_seeds_is_better() -> None:
    row = table(final([0.30, 0.35, 0.28]), final([0.60, 0.66, 0.57]))[1]
    assert row.verdict == "better"
    assert row.to_json()["difference"] == pytest.approx(0.3)


def test_a_lower_loss_is_better() -> None:
    row = table(final([0.60, 0.66, 0.57]), final([0.30, 0.35, 0.28]), lower_is_better=True)[1]
    assert row.verdict == "better"
    assert row.to_json()["difference"] == pytest.approx(-0.3)


def test_one_seed_has_a_difference_and_no_verdict() -> None:
    row = table(final([0.3]), final([0.9]))[1]
    assert (row.verdict, row.to_json()["ci"]) == (None, None)
    assert row.to_json()["difference"] == pytest.approx(0.6)


def test_two_seeds_are_undecided_and_show_how_wide_the_interval_is() -> None:
    row = table(final([0.3, 0.3]), final([0.6, 0.7]))[1].to_json()
    assert row["verdict"] == "undecided"
    low, high = row["ci"]
    assert high - low == pytest.approx(2 * 12.706 * 0.05, rel=1e-3)


def test_runs_of_unequal_length_are_compared_at_the_last_common_step() -> None:
    base = [seed_run(1, {10: 0.2, 20: 0.4}), seed_run(2, {10: 0.3, 20: 0.5})]
    arm = [seed_run(1, {10: 0.3}), seed_run(2, {10: 0.4, 20: 0.9})]
    row = table(base, arm)[1].to_json()
    assert row["steps"] == [10, 20]
    assert row["difference"] == pytest.approx((0.1 + 0.4) / 2)


def test_a_seed_that_the_base_lacks_is_left_out() -> None:
    base = [seed_run(1, {20: 0.4}), seed_run(2, {})]
    assert table(base, final([0.5, 0.6]))[1].to_json()["seeds"] == 1


def test_an_arm_that_wins_per_step_can_lose_per_hour() -> None:
    base = [seed_run(seed, {10: 0.2, 20: 0.4}) for seed in (1, 2, 3)]
    slow = [seed_run(seed, {10: 0.3, 20: 0.5}, step_s=2 * STEP_S) for seed in (1, 2, 3)]
    row = table(base, slow)[1].to_json()
    assert row["difference"] == pytest.approx(0.1)
    assert row["difference_at_equal_hours"] == pytest.approx(-0.1)


def test_an_arm_that_wins_per_step_can_lose_per_token() -> None:
    base = [seed_run(seed, {10: 0.2, 20: 0.4}, step_tokens=100) for seed in (1, 2, 3)]
    long = [seed_run(seed, {10: 0.3, 20: 0.5}, step_tokens=200) for seed in (1, 2, 3)]
    row = table(base, long)[1].to_json()
    assert row["difference"] == pytest.approx(0.1)
    assert row["difference_at_equal_tokens"] == pytest.approx(-0.1)


def test_without_a_count_of_tokens_nothing_is_said_of_them() -> None:
    row = table(final([0.3, 0.4]), final([0.5, 0.6]))[1].to_json()
    assert row["difference_at_equal_tokens"] is None


def test_many_arms_against_one_base_are_adjusted_together() -> None:
    base = final([0.30, 0.35, 0.28])
    arm = final([0.40, 0.53, 0.36])
    alone = table(base, arm)[1]
    among = table(base, arm, *[final([0.31, 0.33, 0.30])] * 5)[1]
    assert alone.comparison is not None
    assert among.comparison is not None
    assert among.comparison.p == pytest.approx(6 * (alone.comparison.p or 0))


def test_a_verdict_counts_the_arms_that_have_no_result_yet() -> None:
    base, arm = final([0.30, 0.35, 0.28]), final([0.40, 0.53, 0.36])
    planned = [SeedRun("run", seed, None, {}, {}) for seed in (1, 2, 3)]
    early, later = (
        table(base, arm, *[other] * 5)[1].comparison
        for other in (planned, final([0.31, 0.33, 0.30]))
    )
    assert early is not None
    assert later is not None
    assert early.p == pytest.approx(later.p)


def test_an_arm_whose_runs_all_failed_counts_for_no_verdict() -> None:
    base, arm = final([0.30, 0.35, 0.28]), final([0.40, 0.53, 0.36])
    failed = [SeedRun("run", seed, RunState("failed"), {}, {}) for seed in (1, 2, 3)]
    assert table(base, arm, failed)[1] == table(base, arm)[1]


def test_a_planned_run_counts_nothing() -> None:
    planned = [SeedRun("run-s1", 1, None, {}, {})]
    row = table(final([0.3]), planned)[1].to_json()
    assert (row["runs"], row["seeds"], row["mean"]) == ([], 0, None)


class TestStoppingWhatIsWorse:
    """Looking after every seed spends a part of the error budget each time."""

    BASE_RUNS: ClassVar = final([0.60, 0.66, 0.57])

    def after(self, seeds: int, values: Sequence[float], *, arms: int = 1) -> dict[str, str]:
        planned = [SeedRun(f"run-s{seed}", seed, None, {}, {}) for seed in (1, 2, 3)]
        runs = {BASE: self.BASE_RUNS}
        for number in range(arms):
            runs[f"arm-{number}"] = [*final(values)[:seeds], *planned[seeds:]]
        return find_worse(plan_of(runs, stop_worse=True), runs, lower_is_better=False)

    def test_a_large_loss_over_two_seeds_stops_the_arm(self) -> None:
        reasons = self.after(2, [0.10, 0.161])
        assert reasons == {"arm-0": "worse than the base after 2 seeds"}

    def test_a_loss_that_the_first_look_cannot_pay_for_does_not(self) -> None:
        values = [0.10, 0.20]
        alone = compare_paired([0.60, 0.66], values)
        assert alone.verdict == "worse"
        assert self.after(2, values) == {}

    @pytest.mark.thorough
    @pytest.mark.long
    def test_an_equal_arm_is_given_up_in_at_most_5_of_100_experiments(self) -> None:
        """Looks after the second to the fifth seed; without correction, 7 of 100 would be."""
        given_up = sum(
            any(
                self.is_given_up(base[:seeds].tolist(), arm[:seeds].tolist())
                for seeds in range(2, 6)
            )
            for base, arm in np.random.default_rng(8).normal(size=(500, 2, 5))
        )
        assert given_up / 500 <= 0.05

    def is_given_up(self, base: Sequence[float], arm: Sequence[float]) -> bool:
        planned = [SeedRun("run", seed, None, {}, {}) for seed in range(len(base) + 1, 6)]
        runs = {BASE: [*final(base), *planned], "arm": [*final(arm), *planned]}
        return bool(find_worse(plan_of(runs, stop_worse=True), runs, lower_is_better=False))

    def test_every_arm_of_the_plan_counts(self) -> None:
        assert self.after(2, [0.10, 0.164], arms=1)
        assert not self.after(2, [0.10, 0.164], arms=10)

    def test_better_arms_continue(self) -> None:
        assert self.after(2, [1.10, 1.1601]) == {}

    def test_a_plan_without_early_stops_has_none(self) -> None:
        runs = {BASE: self.BASE_RUNS, "arm": final([0.1, 0.16, 0.07])}
        assert find_worse(plan_of(runs), runs, lower_is_better=False) == {}
