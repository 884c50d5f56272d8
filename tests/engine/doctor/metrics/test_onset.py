"""A run that turns unhealthy is named so, with the step at which it began."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.doctor.metrics import metric_findings
from tests.engine.doctor.metrics.curves import (
    Curves,
    Floats,
    alerts,
    columns,
    find,
    healthy,
    healthy_sft,
)

STEPS = 120
Fault = Callable[[Curves, int], None]
"""Makes curves unhealthy from a place on."""


def ramp(curve: Floats, place: int, steps: int = 3) -> Floats:
    """0 before the place, then up to 1 within a few steps."""
    return np.clip((np.arange(curve.size) - place + 1) / steps, 0, 1)


def level(curves: Curves, name: str, value: float, noise: float = 0.1) -> Floats:
    rng = np.random.default_rng(5)
    curves[name] = value * np.exp(rng.normal(0, noise, STEPS))
    return curves[name]


def loss_is_nan(curves: Curves, place: int) -> None:
    curves["actor/pg_loss"][place:] = np.nan


def reward_is_nan(curves: Curves, place: int) -> None:
    curves["reward/mean"][place:] = np.nan


def groups_are_equal(curves: Curves, place: int) -> None:
    curves["reward/std"][place:] = 0
    curves["reward/zero_std_share"][place:] = 1


def reward_is_zero(curves: Curves, place: int) -> None:
    level(curves, "reward/mean", 0.4)[place:] = 0
    del curves["reward/std"], curves["reward/zero_std_share"]


def entropy_falls(curves: Curves, place: int) -> None:
    entropy = level(curves, "actor/entropy", 0.5)
    entropy *= 1 - 0.985 * ramp(entropy, place)


def entropy_explodes(curves: Curves, place: int) -> None:
    entropy = level(curves, "actor/entropy", 0.5)
    entropy += 4 * ramp(entropy, place)


def responses_vanish(curves: Curves, place: int) -> None:
    length = level(curves, "response_length/mean", 300)
    length *= 1 - 0.98 * ramp(length, place)


def responses_reach_the_cap(curves: Curves, place: int) -> None:
    capped = level(curves, "response_length/clip_ratio", 0.1)
    np.maximum(capped, 0.97 * ramp(capped, place), out=capped)


def kl_grows(curves: Curves, place: int) -> None:
    kl = level(curves, "actor/kl_loss", 0.05)
    kl += 4 * ramp(kl, place)


def gradients_grow(curves: Curves, place: int) -> None:
    norm = level(curves, "actor/grad_norm", 0.5)
    norm *= 1 + 100 * ramp(norm, place)


def reward_is_lost(curves: Curves, place: int) -> None:
    rng = np.random.default_rng(6)
    learned = 0.2 + 0.5 * np.minimum(1, np.arange(STEPS) / (0.6 * place))
    curves["reward/mean"] = learned + rng.normal(0, 0.03, STEPS)
    curves["reward/mean"] -= 0.6 * ramp(learned, place, 2)


def steps_slow_down(curves: Curves, place: int) -> None:
    level(curves, "timing_s/step", 10)[place:] *= 4


def judge_slows_down(curves: Curves, place: int) -> None:
    level(curves, "judge_api_latency_s", 2)[place:] *= 8


def replies_are_garbage(curves: Curves, place: int) -> None:
    curves["judge/parse_failures"][place:] = 20


def calls_time_out(curves: Curves, place: int) -> None:
    curves["judge/timeouts"][place:] = 50


def samples_fail(curves: Curves, place: int) -> None:
    curves["reward/failed_share"][place:] = 0.6


FAULTS: dict[str, tuple[Fault, ...]] = {
    "loss_nan": (loss_is_nan,),
    "reward_function_error.nan": (reward_is_nan,),
    "reward_zero_or_flat.equal": (groups_are_equal,),
    "reward_zero_or_flat.zero": (reward_is_zero,),
    "collapse_entropy_or_length.entropy": (entropy_falls,),
    "collapse_entropy_or_length.entropy_explosion": (entropy_explodes,),
    "collapse_entropy_or_length.length": (responses_vanish,),
    "collapse_entropy_or_length.length_cap": (responses_reach_the_cap,),
    "collapse_entropy_or_length.reward": (reward_is_lost,),
    "kl_or_grad_blowup.kl": (kl_grows,),
    "kl_or_grad_blowup.gradient": (gradients_grow,),
    "slow_step": (steps_slow_down,),
    "judge_timeout_or_connection.slower": (judge_slows_down,),
    "judge_timeout_or_connection.timeouts": (calls_time_out,),
    "judge_timeout_or_connection.samples_failed": (samples_fail,),
    "judge_parse_failure": (replies_are_garbage,),
}


@pytest.mark.parametrize("id", FAULTS)
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), place=st.integers(30, STEPS - 10))
def test_the_fault_is_the_first_alert_and_dated_within_two_steps(
    id: str, seed: int, place: int
) -> None:
    curves = healthy(seed, STEPS)
    for fault in FAULTS[id]:
        fault(curves, place)
    findings = metric_findings(columns(curves))
    onset = find(findings, id).onset_step
    assert alerts(findings)[0].startswith(id)
    assert onset is not None and abs(onset - (place + 1)) <= 2


@pytest.mark.parametrize("id", ["loss_nan", "reward_function_error.nan"])
def test_no_number_is_named_in_the_step_it_happens(id: str) -> None:
    curves = healthy(3, STEPS)
    for fault in FAULTS[id]:
        fault(curves, 49)
    grown = {name: curve[:51] for name, curve in curves.items()}
    assert alerts(metric_findings(columns(grown))) == [id]


def test_a_reward_that_was_nan_in_one_step_is_not_said_to_be_nan_still() -> None:
    curves = healthy(4, STEPS)
    curves["reward/mean"][49] = np.nan
    finding = find(metric_findings(columns(curves)), "reward_function_error.nan")
    assert (finding.title, finding.severity) == ("Reward was briefly NaN", "warning")
    assert "in step 50, and finite again since" in finding.cause


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), place=st.integers(40, STEPS - 10))
def test_a_supervised_loss_that_explodes(seed: int, place: int) -> None:
    curves = healthy_sft(seed, STEPS)
    curves["train/loss"] += 8 * ramp(curves["train/loss"], place)
    onset = find(metric_findings(columns(curves)), "kl_or_grad_blowup.loss").onset_step
    assert onset is not None and abs(onset - (place + 1)) <= 2


def test_what_follows_is_folded_below_what_came_first() -> None:
    curves = healthy(11, STEPS)
    for fault in (gradients_grow, responses_vanish, groups_are_equal, reward_is_lost):
        fault(curves, 60)
    (root,) = [
        finding for finding in metric_findings(columns(curves)) if finding.severity != "info"
    ]
    assert root.category in ("kl_or_grad_blowup", "collapse_entropy_or_length")
    assert any(consequence.category == "reward_zero_or_flat" for consequence in root.followed_by)


def test_a_nan_reward_explains_the_nan_loss() -> None:
    curves = healthy(12, STEPS)
    reward_is_nan(curves, 50)
    loss_is_nan(curves, 50)
    (root,) = [
        finding for finding in metric_findings(columns(curves)) if finding.severity != "info"
    ]
    assert root.id == "reward_function_error.nan"
    assert [consequence.id for consequence in root.followed_by] == ["loss_nan"]


@pytest.mark.parametrize(("nan_from", "root"), [(27, "loss_nan"), (28, "loss_nan"), (31, None)])
def test_a_nan_is_the_cause_of_what_begins_with_it_or_later(
    nan_from: int, root: str | None
) -> None:
    """Broken weights run to the length limit; what began before them has another cause."""
    loss = np.linspace(0.1, 0.2, 40)
    loss[nan_from - 1 :] = np.nan
    cut = np.where(np.arange(1, 41) >= 28, 1.0, 0.02)
    found = metric_findings(columns({"actor/pg_loss": loss, "response_length/clip_ratio": cut}))
    assert found[0].id == (root or "collapse_entropy_or_length.length_cap")
    assert len(found) == 1


def test_responses_that_never_end_explain_why_none_earns_anything() -> None:
    zero = np.zeros(40)
    curves = {"reward/mean": zero, "reward/std": zero, "response_length/clip_ratio": zero + 1}
    (root,) = metric_findings(columns(curves))
    assert root.id == "collapse_entropy_or_length.cap_from_start"
    assert [each.id for each in root.followed_by] == ["reward_zero_or_flat.all_wrong"]
