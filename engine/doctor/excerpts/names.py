"""Which quantity a name means, by whatever trainer it was given."""

from __future__ import annotations

import re
from functools import lru_cache

from engine.history import metrics

STEP = "step"

_KEPT = re.compile(
    r"critic/(?:score|rewards)/(?:mean|max|min)|response_length/(?:mean|max|min|clip_ratio)"
    r"|rewards/(?:chosen|rejected|margins|accuracies)|objective/(?:kl|scores)"
    r"|actor/(?:pg_loss|kl_loss|ppo_kl|entropy|entropy_loss|grad_norm|lr)|critic/vf_loss"
)
"""verl's and TRL's own names, which the rules know."""
_WHOLE = {
    name: metrics.ALIASES[name]
    for name in (
        *("reward", "reward_std", "reward_mean", "mean_reward", "frac_reward_zero_std"),
        *("completion_length", "completions/mean_length", "completions/clipped_ratio"),
        *("completions/min_length", "completions/max_length"),
    )
}
_OF = (
    r"(?:(?:train|training|global|total|avg|average|mean|batch|step|running|reduced|mini"
    r"|combined|overall|joint)_)*"
)
_SHAPES = tuple(
    (re.compile(shape), metric)
    for shape, metric in (
        (r"global_steps?/max_steps", STEP),
        (r"(?:train(?:ing)?/)?(?:global_)?(?:steps?|iter(?:ation)?s?)", STEP),
        (rf"{_OF}(?:grad|gradient)_?norm(?:_(?:total|mean|avg|too_large|(?:pre|before)_clip\w*))?"
         r"|gnorm|total_norm|grad", "actor/grad_norm"),
        (rf"{_OF}(?:policy|pg|actor|act|policy_gradient|surrogate)_loss(?:_mean)?",
         "actor/pg_loss"),
        (rf"{_OF}(?:(?:lm|dpo|sft|grpo|gkd|ppo|ce|nll|cross_entropy|pretrain)_)?{_OF}loss"
         r"(?:_(?:train|step|mean|avg|total|is))?|loss(?:es)?/(?:train|training|total)",
         metrics.TRAIN_LOSS),
        (r"(?:eval|val|validation)_loss", metrics.VALIDATION_LOSS),
        (rf"{_OF}(?:approx|ppo)_kl(?:_mean)?", "actor/ppo_kl"),
        (rf"{_OF}(?:(?:reversed?|ref|policy|actor)_)?kl"
         r"(?:_(?:div|divergence|dist|loss|mean|avg|ref))*", "actor/kl_loss"),
        (rf"{_OF}rewards?[_/]?(?:mean|avg)|{_OF}(?:mean|avg|average|episode)_?rewards?"
         rf"|{_OF}(?:ep|episode|episodic)_(?:rew|rewards?|returns?)(?:[_/](?:mean|avg))?"
         r"|(?:env|rollout|rl|episode)/rewards?|total_rewards?", metrics.REWARD_MEAN),
        (r"(?:mean_)?rewards?[_/](?:std|stdev|stddev)|std_rewards?", metrics.REWARD_STD),
        (r"rewards?[_/]min", metrics.REWARD_MIN),
        (r"rewards?[_/]max", metrics.REWARD_MAX),
        (rf"{_OF}(?:(?:policy|token|actor)_)*entropy(?:[_/](?:mean|avg))?", "actor/entropy"),
        (rf"{_OF}(?:(?:response|completion|gen|generation|generated|output)_)?(?:length|len)"
         r"(?:[_/]mean)?|mean_length", "response_length/mean"),
        (r"(?:(?:response|completion)s?_)?(?:clipped_ratio|truncat(?:ed|ion)_(?:ratio|rate))",
         "response_length/clip_ratio"),
        (r"lr|learning_rate", "train/lr"),
    )
)  # fmt: skip
_LENGTHS = re.compile(
    r"(?:response|completion|gen|generation|generated|output|mean|avg|average)\w*_len(?:gth)?\w*"
)
_OTHERS = frozenset(
    {
        *("val", "valid", "validation", "eval", "evaluation", "test", "critic", "value", "vf"),
        *("aux", "max", "min", "clip", "target", "best", "attempted", "init", "final"),
        *("prev", "last", "old", "skipped"),
    }
)
"""Words that make it another quantity, or a setting."""


@lru_cache(maxsize=4096)
def metric_of(raw: str) -> str | None:
    """The canonical name, ``STEP`` for a counter of steps, None for what is not looked at.

    Words before the name that belong to the sentence do no harm: ``the mean loss``.
    """
    words = re.sub(r"[- ]+", " ", raw.lower()).split(" ")
    for start in range(len(words)):
        if _OTHERS & {*words[:start]}:
            return None
        found = _metric("_".join(words[start:]))
        if found is not None:
            return found
    return None


def _metric(name: str) -> str | None:
    if _KEPT.fullmatch(name):
        return name
    name = name.removeprefix("train/")
    path, _, last = name.rpartition("/")
    if name in _WHOLE or _OTHERS & {*path.split("/")}:
        return _WHOLE.get(name)
    if path == "rewards" and last not in ("mean", "std", "min", "max"):
        return None  # TRL's parts of the reward.
    return _shaped(name) or (_shaped(last) if path else None)


def _shaped(name: str) -> str | None:
    found = next((metric for shape, metric in _SHAPES if shape.fullmatch(name)), None)
    if found == "response_length/mean" and not _LENGTHS.fullmatch(name):
        return None
    return found
