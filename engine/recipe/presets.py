"""Algorithms by one word: ``grubrics.preset=dapo`` sets the values in which DAPO differs from GRPO.

The values are those of verl 0.9.1's examples (``examples/*_trainer``, ``docs/algo``) and of the
presets of its ``RolloutCorrectionConfig``. A value that a person sets beside the preset wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.base.errors import UsageError, unknown_name

KEY = "grubrics.preset"
_ACTOR = "actor_rollout_ref.actor"
_CORRECTION = "algorithm.rollout_correction"
_BUFFER = "reward.reward_kwargs.overlong_buffer_cfg"
_LONGEST_RESPONSE = object()
"""Stands for the value of ``data.max_response_length``."""

_NO_KL = {f"{_ACTOR}.use_kl_loss": False, "algorithm.use_kl_in_reward": False}
_ROLLOUT_PROBABILITIES = {"actor_rollout_ref.rollout.calculate_log_probs": True}


@dataclass(frozen=True)
class Preset:
    """What an algorithm is, in a line, and the values by dotted key that make it."""

    summary: str
    values: Mapping[str, Any]


def _loss(mode: str, **values: Any) -> dict[str, Any]:
    """Values of the actor with a policy loss."""
    own = {f"{_ACTOR}.{name}": value for name, value in values.items()}
    return {f"{_ACTOR}.policy_loss.loss_mode": mode, **own}


def _correction(**values: Any) -> dict[str, Any]:
    own = {f"{_CORRECTION}.{name}": value for name, value in values.items()}
    return {**own, f"{_CORRECTION}.bypass_mode": False, **_ROLLOUT_PROBABILITIES}


PRESETS: Mapping[str, Preset] = {
    "dapo": Preset(
        "a higher upper clip, dynamic sampling, the mean over all tokens, soft overlong penalty",
        {
            f"{_ACTOR}.clip_ratio_low": 0.2,
            f"{_ACTOR}.clip_ratio_high": 0.28,
            f"{_ACTOR}.clip_ratio_c": 10.0,
            f"{_ACTOR}.loss_agg_mode": "token-mean",
            **_NO_KL,
            "algorithm.adv_estimator": "grpo",
            "algorithm.filter_groups.enable": True,
            "algorithm.filter_groups.metric": "reward",
            "reward.reward_manager.name": "dapo",
            f"{_BUFFER}.enable": True,
            f"{_BUFFER}.penalty_factor": 1.0,
            f"{_BUFFER}.log": True,
            "reward.reward_kwargs.max_resp_len": _LONGEST_RESPONSE,
        },
    ),
    "gspo": Preset(
        "one importance ratio per sequence, clipped closely",
        {
            "algorithm.adv_estimator": "grpo",
            **_loss(
                "gspo",
                clip_ratio_low=3e-4,
                clip_ratio_high=4e-4,
                clip_ratio_c=10.0,
                loss_agg_mode="seq-mean-token-mean",
            ),
        },
    ),
    "dr_grpo": Preset(
        "advantages without the division by the spread, losses without that by the length",
        {
            "algorithm.adv_estimator": "grpo",
            "algorithm.norm_adv_by_std_in_grpo": False,
            f"{_ACTOR}.loss_agg_mode": "seq-mean-token-sum-norm",
            f"{_ACTOR}.loss_scale_factor": _LONGEST_RESPONSE,
            **_NO_KL,
        },
    ),
    "cispo": Preset("importance weights are clipped, gradients are not", _loss("cispo")),
    "sapo": Preset("a soft gate on the ratio in place of the clip", _loss("sapo")),
    "gmpo": Preset("the geometric mean of the ratios of a sequence", _loss("geo_mean")),
    "clip_cov": Preset(
        "no gradient for some of the tokens that lower the entropy most", _loss("clip_cov")
    ),
    "kl_cov": Preset("a KL penalty for the tokens that lower the entropy most", _loss("kl_cov")),
    "rloo": Preset(
        "the mean reward of the other rollouts as the baseline",
        {"algorithm.adv_estimator": "rloo"},
    ),
    "reinforce_pp": Preset(
        "REINFORCE++ with the group's mean as the baseline, normalized over the batch",
        {"algorithm.adv_estimator": "reinforce_plus_plus_baseline"},
    ),
    "tis": Preset(
        "truncated importance sampling of tokens between rollout and trainer",
        _correction(rollout_is="token", rollout_is_threshold=2.0, rollout_rs=None),
    ),
    "icepop": Preset(
        "weights of tokens between rollout and trainer, 0 outside of 0.5 to 5",
        _correction(rollout_is="token", rollout_is_threshold="0.5_5.0", rollout_rs=None),
    ),
    "mis": Preset(
        "sequences whose ratio between rollout and trainer is not 0.5 to 2 are left out",
        _correction(
            rollout_is="sequence",
            rollout_is_threshold=2.0,
            rollout_rs="seq_sum_k1",
            rollout_rs_threshold="0.5_2.0",
        ),
    ),
    "geo_rs": Preset(
        "sequences whose mean ratio between rollout and trainer is off by 0.1 % are left out",
        _correction(rollout_is=None, rollout_rs="seq_mean_k1", rollout_rs_threshold="0.999_1.001"),
    ),
}
"""By name. All are variants of GRPO except rloo and reinforce_pp."""


def preset_names(value: Any) -> list[str]:
    """The presets in a value of ``grubrics.preset``: a name, a list of names, or null for none.

    UsageError for anything else.
    """
    names = [] if value is None else value if isinstance(value, list) else [value]
    for name in names:
        if not isinstance(name, str) or name not in PRESETS:
            raise unknown_name(KEY, str(name), PRESETS)
    return names


def preset_values(names: Sequence[str], max_response_length: Any) -> dict[str, Any]:
    """The values of presets by dotted key. UsageError if two of them do not fit together."""
    values: dict[str, Any] = {}
    owners: dict[str, str] = {}
    for name in names:
        for key, value in PRESETS[name].values.items():
            if values.setdefault(key, value) != value:
                raise UsageError(
                    f"{KEY}: '{owners[key]}' and '{name}' set {key} to different values; "
                    "leave one of them out"
                )
            owners.setdefault(key, name)
    if values.get(f"{_BUFFER}.enable"):
        values[f"{_BUFFER}.len"] = _overlong_buffer(max_response_length)
    return {
        key: max_response_length if value is _LONGEST_RESPONSE else value
        for key, value in values.items()
    }


def _overlong_buffer(max_response_length: Any) -> int:
    """A fifth of the longest response, as DAPO's 4,096 of 20,480 tokens (arXiv 2503.14476)."""
    if not isinstance(max_response_length, int):
        raise UsageError(f"{KEY}=dapo needs a number as data.max_response_length")
    return max(1, max_response_length // 5)
