"""Lengths and entropy that fall, and what looks like it."""

from __future__ import annotations

import numpy as np
import pytest

from engine.doctor.metrics import RuleContext, metric_findings
from engine.run.finding import Severity
from tests.engine.doctor.metrics.curves import alerts_of, columns, find


@pytest.mark.parametrize("onset", [2, 11, 31, 39, 40])
def test_a_nan_loss_in_a_run_at_its_length_limit_comes_first(onset: int) -> None:
    loss = np.linspace(2.0, 1.0, 40)
    loss[onset - 1 :] = np.nan
    findings = metric_findings(columns({"tokens_out": np.full(40, 64.0), "train/loss": loss}))
    assert (findings[0].id, findings[0].severity) == ("loss_nan", Severity.CRITICAL)
    assert findings[0].onset_step == onset


def test_entropy_that_fades_slowly_is_a_warning_when_nothing_is_left() -> None:
    fading = 0.5 * np.exp(-np.arange(600) / 100)
    findings = metric_findings(columns({"actor/entropy": fading}))
    assert [(finding.id, finding.severity) for finding in findings] == [
        ("collapse_entropy_or_length.entropy", "warning")
    ]
    assert alerts_of({"actor/entropy": fading[:200]}) == []


def test_entropy_that_follows_the_temperature_of_a_schedule_is_no_collapse() -> None:
    cooling = np.concatenate([np.linspace(1.0, 0.15, 40), np.full(20, 0.15)])
    entropy = np.concatenate([np.geomspace(2.0, 0.04, 40), np.full(20, 0.04)])
    assert alerts_of({"actor/entropy": entropy}) == ["collapse_entropy_or_length.entropy"]
    assert alerts_of({"actor/entropy": entropy, "rollout/temperature": cooling}) == []
    assert alerts_of({"actor/entropy": entropy[::-1], "rollout/temperature": cooling[::-1]}) == []


def test_entropy_that_collapses_at_the_end_of_a_schedule_is_found() -> None:
    cooling = np.concatenate([np.linspace(1.0, 0.5, 20), np.full(30, 0.5)])
    entropy = np.concatenate([np.linspace(2.0, 1.0, 20), np.full(15, 1.0), np.full(15, 0.01)])
    curves = {"actor/entropy": entropy, "rollout/temperature": cooling}
    assert alerts_of(curves) == ["collapse_entropy_or_length.entropy"]


def test_lengths_that_follow_a_schedule_are_no_collapse() -> None:
    limits = np.linspace(400.0, 20.0, 60)
    curves = {"response_length/mean": 0.7 * limits}
    assert "collapse_entropy_or_length.length" in alerts_of(curves)
    assert alerts_of(curves | {"rollout/max_response_length": limits}) == []


def test_entropy_that_grows_is_a_warning_where_rewards_are_lost_with_it() -> None:
    certain, lost = np.full(8, 0.05), np.full(8, 0.3)
    grown = np.concatenate([certain, lost])
    rewards = np.concatenate([np.full(8, 0.85), np.full(8, 0.5)]) + 0.02 * np.tile([1, -1], 8)
    findings = metric_findings(columns({"actor/entropy": grown, "reward/mean": rewards}))
    assert ("collapse_entropy_or_length.entropy_explosion", "warning") in [
        (one.id, one.severity) for one in [*findings, *findings[0].followed_by]
    ]
    assert alerts_of({"actor/entropy": grown, "reward/mean": np.full(16, 0.85)}) == []


def test_lengths_at_the_cap_in_every_step() -> None:
    assert alerts_of({"tokens_out": np.full(30, 64.0)}) == [
        "collapse_entropy_or_length.cap_from_start"
    ]
    assert alerts_of({"tokens_out": np.full(15, 64.0)}) == []


@pytest.mark.parametrize("thinks", [True, False])
def test_thinking_is_not_to_be_turned_off_where_it_is(thinks: bool) -> None:
    config = {"data.apply_chat_template_kwargs.enable_thinking": thinks}
    [finding] = metric_findings(
        columns({"tokens_out": np.full(30, 64.0)}), RuleContext(config=config)
    )
    assert any("thinking" in fix.title for fix in finding.fixes) == thinks


@pytest.mark.parametrize("tokens", [0.0, 2.0])
def test_labels_of_one_length_are_not_cut(tokens: float) -> None:
    assert alerts_of({"tokens_out": np.full(30, tokens)}) == []


def test_lengths_that_reach_the_longest_and_stay_there() -> None:
    rng = np.random.default_rng(2)
    lengths = np.concatenate([rng.integers(10, 30, 40).astype(float), np.full(12, 64.0)])
    one = find(metric_findings(columns({"tokens_out": lengths})), "collapse")
    assert (one.id, one.onset_step) == ("collapse_entropy_or_length.length_cap", 41)


def test_a_policy_loss_that_doubles_warns_beside_the_collapse_that_follows() -> None:
    curves = {
        "actor/loss": [6.8, 11, 19, 57, 215, 90, *[0.0] * 19],
        "tokens_out": [9.0, 9, 8, 9, 9, 6, *[1.0] * 19],
    }
    assert alerts_of(curves) == [
        "collapse_entropy_or_length.length",
        "kl_or_grad_blowup.policy_loss",
    ]


@pytest.mark.parametrize(("reward", "severity"), [(0.9, "warning"), (0.2, "critical")])
def test_short_answers_that_are_paid_better_may_be_right(reward: float, severity: str) -> None:
    short = np.arange(40) >= 20
    curves = {
        "response_length/mean": np.where(short, 3.0, 200.0),
        "reward/mean": np.where(short, reward, 0.2) + 0.01 * np.sin(np.arange(40)),
    }
    one = find(metric_findings(columns(curves)), "collapse_entropy_or_length.length")
    assert one.severity == severity


@pytest.mark.parametrize(("length", "text"), [(1.0, "1 token"), (2.0, "2 tokens")])
def test_the_title_of_a_length_collapse_counts_tokens(length: float, text: str) -> None:
    lengths = np.concatenate([np.full(20, 200.0), np.full(20, length)])
    collapse = find(metric_findings(columns({"response_length/mean": lengths})), "collapse")
    assert collapse.title.endswith(f" {text}")


def test_a_cap_that_is_hit_soon_is_not_hit_from_the_start() -> None:
    """Half of what counts as early is capped already."""
    curves = {
        "response_length/clip_ratio": [0.03, 0.125, *[1.0] * 10],
        "actor/grad_norm": [0.4, 0.5, *[60.0] * 10],
    }
    (root,) = metric_findings(columns(curves))
    assert (root.id, root.onset_step) == ("kl_or_grad_blowup.gradient", 3)
    (capped,) = root.followed_by
    assert (capped.id, capped.onset_step) == ("collapse_entropy_or_length.length_cap", 3)
    assert "7.8%" in capped.cause


@pytest.mark.row("A10")
def test_a_cap_that_is_hit_from_the_start_is_told_with_its_share() -> None:
    (one,) = metric_findings(columns({"response_length/clip_ratio": np.full(20, 0.9)}))
    assert [seen.text for seen in one.evidence] == ["90% of responses at the limit"]


def test_what_did_not_move_is_no_evidence() -> None:
    capped = np.repeat([0.0, 1.0], 10)
    curves = {"response_length/clip_ratio": capped, "actor/grad_norm": np.full(20, 0.3)}
    [one] = metric_findings(columns({**curves, "actor/entropy": np.repeat([0.5, 0.9], 10)}))
    assert [seen.text.split()[0] for seen in one.evidence] == [
        "response_length/clip_ratio",
        "actor/entropy",
    ]


@pytest.mark.parametrize(("limit", "longest", "believed"), [(12, 8.0, False), (8, 8.0, True)])
def test_a_share_at_the_longest_counts_only_where_that_is_the_limit(
    limit: int, longest: float, believed: bool
) -> None:
    curves = {
        "response_length/mean": np.full(30, 7.0),
        "response_length/max": np.full(30, longest),
        "response_length/clip_ratio": np.full(30, 0.58),
    }
    findings = metric_findings(columns(curves), RuleContext({"data.max_response_length": limit}))
    ids = [finding.id for finding in findings if finding.category == "collapse_entropy_or_length"]
    assert bool(ids) == believed


def test_batches_shorter_than_the_longest_response_of_all_were_not_cut() -> None:
    longest = np.where(np.arange(40) == 5, 900.0, 512.0)
    curves = {"response_length/max": longest, "response_length/clip_ratio": np.full(40, 0.95)}
    findings = metric_findings(columns({**curves, "response_length/mean": np.full(40, 400.0)}))
    assert not any(
        finding.id.startswith("collapse_entropy_or_length.length_cap") for finding in findings
    )


def test_a_run_that_learns_from_labels_may_become_certain() -> None:
    learned = {
        "train/loss": 5 * np.exp(-np.arange(60) / 6),
        "train/entropy": np.geomspace(3, 5e-4, 60),
    }
    assert alerts_of(learned) == []
    assert alerts_of({**learned, "reward/mean": np.linspace(0.1, 0.2, 60)}) == [
        "collapse_entropy_or_length.entropy"
    ]


def test_masked_labels_are_no_cause_in_a_run_that_learns_from_rewards() -> None:
    broken = {"train/loss": np.zeros(20), "train/grad_norm": np.full(20, np.nan)}
    assert alerts_of(broken) == ["loss_nan.no_labels"]
    rewards = {"reward/mean": np.linspace(0.1, 0.2, 20), "reward/std": np.full(20, 0.3)}
    assert alerts_of({**broken, **rewards}) == ["loss_nan"]
