"""Names of metrics in the words of many programs."""

from __future__ import annotations

import pytest

from engine.run.history.metric_words import STEP, metric_of
from engine.run.history.metrics import TRAIN_LOSS


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("train/loss", TRAIN_LOSS),
        ("lm loss", TRAIN_LOSS),
        ("reduced_train_loss", TRAIN_LOSS),
        ("grpo_loss/total_loss", TRAIN_LOSS),
        ("Actor Loss", "actor/pg_loss"),
        ("approx_kl", "actor/ppo_kl"),
        ("loss/kl_divergence_mean", "actor/kl_loss"),
        ("Gradient norm too large", "actor/grad_norm"),
        ("gnorm", "actor/grad_norm"),
        ("global_step/max_steps", STEP),
        ("iteration", STEP),
        ("completions/clipped_ratio", "response_length/clip_ratio"),
        ("Avg Response Len", "response_length/mean"),
        ("reward/mean", "reward/mean"),
        ("mean_token_entropy", "actor/entropy"),
        ("learning_rate", "train/lr"),
        ("Loss/train", TRAIN_LOSS),
        ("losses/total", TRAIN_LOSS),
        ("ep_rew_mean", "reward/mean"),
        ("mean_episode_return", "reward/mean"),
        ("gen_len", "response_length/mean"),
        ("max_output_len", None),
        ("loss/critic", None),
    ],
)
def test_a_metric_has_one_name(name: str, metric: str | None) -> None:
    assert metric_of(name) == metric
