"""Never cry wolf: runs that are well have no finding above info, whatever they log."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.doctor.metrics import metric_findings
from tests.engine.doctor.metrics.curves import Curves, alerts, columns, healthy, healthy_sft

pytestmark = pytest.mark.long

NAMES = sorted(healthy(0, 5))


@settings(max_examples=200)
@given(seed=st.integers(0, 2**32 - 1), logged=st.sets(st.sampled_from(NAMES), min_size=1))
def test_a_run_that_drifts_and_jitters_has_no_alert(seed: int, logged: set[str]) -> None:
    curves: Curves = {name: curve for name, curve in healthy(seed).items() if name in logged}
    assert alerts(metric_findings(columns(curves))) == []


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32 - 1))
def test_supervised_training_that_goes_well_has_no_alert(seed: int) -> None:
    assert alerts(metric_findings(columns(healthy_sft(seed)))) == []


@pytest.mark.thorough
@pytest.mark.long
@settings(max_examples=10)
@given(seed=st.integers(0, 2**32 - 1))
def test_no_moment_of_a_growing_run_raises_an_alert(seed: int) -> None:
    curves = healthy(seed, 60)
    for size in range(1, 61):
        grown = {name: curve[:size] for name, curve in curves.items()}
        assert alerts(metric_findings(columns(grown))) == []


def test_a_run_without_any_step_has_nothing_to_find() -> None:
    assert metric_findings(columns({"reward/mean": []})) == []


@pytest.mark.parametrize("value", [0.0, 1.0, np.nan, 1e100, -1e100])
def test_constant_metrics_of_any_name_do_not_break_the_rules(value: float) -> None:
    metric_findings(columns({name: np.full(30, value) for name in [*NAMES, "train/loss"]}))


@settings(max_examples=100)
@given(
    st.dictionaries(
        st.sampled_from([*NAMES, "train/loss", "val/loss", "rewards/a", "rewards/margins"]),
        st.lists(st.floats(-1e100, 1e100) | st.just(float("nan")), max_size=40),
        min_size=1,
    )
)
def test_no_numbers_make_a_rule_fail(curves: dict[str, list[float]]) -> None:
    metric_findings(columns(curves))


def test_a_single_spike_and_a_single_dip_are_no_alert() -> None:
    curves = healthy(7, 100)
    curves["actor/grad_norm"][40] *= 500
    curves["reward/mean"][60] = -1.0
    curves["timing_s/step"][70] *= 20
    assert alerts(metric_findings(columns(curves))) == []


def test_a_busy_host_from_the_beginning_is_no_slowdown() -> None:
    rng = np.random.default_rng(1)
    uneven = rng.uniform(0.7, 8.3, 40)
    assert alerts(metric_findings(columns({"timing_s/step": uneven}))) == []


def test_a_cap_that_is_hit_from_the_start_is_worth_knowing_and_no_alert() -> None:
    findings = metric_findings(columns({"response_length/clip_ratio": np.full(20, 0.9)}))
    assert [finding.id for finding in findings] == ["collapse_entropy_or_length.cap_from_start"]
    assert alerts(findings) == []
