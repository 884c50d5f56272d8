"""Losses and gradients that run away at once, later, or not at all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.doctor.metrics import RuleContext, metric_findings
from engine.run.kinds import SFT
from tests.engine.doctor.metrics.curves import Floats, alerts_of, columns, find


def jitter(seed: int, steps: int, size: float) -> Floats:
    return np.exp(np.random.default_rng(seed).normal(0, size, steps))


@pytest.mark.parametrize(
    ("begin", "onset"),
    [
        ([1.5, 1.6, 1.4, 1.5, 1.6, 1.5, 3.0, 4.5, 6.0], 7),
        ([1.6, 1.3, 2.9, 6.8], 3),
        ([2.1, 5.5, 9.1], 2),
    ],
)
def test_a_loss_that_explodes_within_its_first_tenth(begin: list[float], onset: int) -> None:
    loss = np.concatenate([begin, 7.4 * jitter(1, 100 - len(begin), 0.02)])
    one = find(metric_findings(columns({"train/loss": loss})), "kl_or_grad_blowup.loss")
    assert (one.severity, one.onset_step) == ("error", onset)


def test_a_loss_that_fell_and_then_explodes_to_where_it_began() -> None:
    loss = np.concatenate([np.linspace(8, 1, 60), np.full(40, 7.0)]) * jitter(2, 100, 0.03)
    one = find(metric_findings(columns({"train/loss": loss})), "kl_or_grad_blowup.loss")
    assert "at its lowest" in one.cause
    assert one.onset_step == 61


def test_gradients_that_explode_at_once_warn_while_the_loss_is_sound() -> None:
    norm = np.concatenate([np.full(7, 0.9), np.full(93, 26.0)]) * jitter(3, 100, 0.05)
    (one,) = metric_findings(columns({"train/grad_norm": norm}))
    assert (one.id, one.severity, one.onset_step) == ("kl_or_grad_blowup.gradient", "warning", 8)


@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(6, 400), start=st.floats(2, 12))
def test_a_large_first_loss_that_falls_is_well(seed: int, steps: int, start: float) -> None:
    loss = (1.2 + start * np.exp(-np.arange(steps) / 9)) * jitter(seed, steps, 0.1)
    norm = (0.8 + 9 * np.exp(-np.arange(steps) / 5)) * jitter(seed + 1, steps, 0.3)
    assert alerts_of({"train/loss": loss, "train/grad_norm": norm}) == []


@given(seed=st.integers(0, 2**32 - 1))
def test_a_loss_that_swings_all_the_time_is_no_explosion(seed: int) -> None:
    swinging = np.random.default_rng(seed).uniform(0.3, 3.0, 200)
    assert alerts_of({"train/loss": swinging}) == []


def test_a_kl_that_runs_away_within_its_first_tenth() -> None:
    kl = np.concatenate([[0.001, 0.002, 0.02, 0.4], np.full(96, 6.0)])
    one = find(metric_findings(columns({"actor/kl_loss": kl})), "kl_or_grad_blowup.kl")
    assert one.onset_step == 5


def test_a_loss_that_climbs_step_by_step_makes_the_model_worse() -> None:
    loss = np.linspace(6.18, 8.31, 16) * jitter(5, 16, 0.01)
    one = find(metric_findings(columns({"train/loss": loss})), "kl_or_grad_blowup.loss_rises")
    assert (one.severity, one.onset_step) == ("error", 1)


def test_a_negative_clip_is_named_as_what_turns_updates_around() -> None:
    context = RuleContext({"training.max_grad_norm": -1.0}, kind=SFT)
    loss = np.linspace(6.18, 8.31, 16) * jitter(5, 16, 0.01)
    one = find(
        metric_findings(columns({"train/loss": loss}), context), "kl_or_grad_blowup.loss_rises"
    )
    assert "training.max_grad_norm=-1" in one.cause
    assert one.fixes[0].changes[0].after == 1.0


@pytest.mark.parametrize(
    "loss",
    [
        np.linspace(6.0, 2.0, 30),
        np.concatenate([np.linspace(6.0, 2.0, 20), np.linspace(2.0, 2.3, 10)]),
        np.full(30, 2.0),
        2.0 + 0.3 * np.sin(np.arange(60) / 5),
    ],
)
def test_a_loss_that_falls_rests_or_swings_does_not_climb(loss: Floats) -> None:
    noisy = loss * jitter(6, loss.size, 0.02)
    findings = metric_findings(columns({"train/loss": noisy}))
    assert "kl_or_grad_blowup.loss_rises" not in [finding.id for finding in findings]


def test_the_loss_of_a_policy_may_rise() -> None:
    curves = {"train/loss": np.linspace(0.1, 0.5, 30), "reward/mean": np.linspace(0, 1, 30)}
    assert not any("loss_rises" in finding.id for finding in metric_findings(columns(curves)))


def test_a_learning_rate_that_no_model_stands_comes_first() -> None:
    broken = {"train/loss": np.array([6.0] * 10 + [7000.0] * 30), "train/lr": np.full(40, 10.0)}
    (root,) = metric_findings(columns(broken))
    assert root.id == "kl_or_grad_blowup.rate_logged"
    assert [each.id for each in root.followed_by] == ["kl_or_grad_blowup.loss"]
    assert alerts_of({"train/loss": np.linspace(2, 1, 40), "train/lr": np.full(40, 0.05)}) == []


def test_a_short_log_without_any_finite_loss_is_no_guess() -> None:
    nan = np.full(4, np.nan)
    (root, *_) = metric_findings(columns({"train/loss": nan}), RuleContext(is_whole=True))
    assert (root.id, root.severity) == ("loss_nan", "critical")
