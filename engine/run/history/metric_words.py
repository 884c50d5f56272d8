"""Metric names in the words of any program: ``Mean loss`` is ``train/loss``.

``metrics`` holds the exact names; these patterns are compiled only when a log of an unknown layout
is read.
"""

from __future__ import annotations

import re
from functools import lru_cache

from engine.run.history import metrics

STEP = "step"

_KNOWN = re.compile(
    r"critic/(?:score|rewards)/(?:mean|max|min)|response_length/(?:mean|max|min|clip_ratio)"
    r"|rewards/(?:chosen|rejected|margins|accuracies)|objective/(?:kl|scores)"
    r"|actor/(?:pg_loss|kl_loss|ppo_kl|entropy|entropy_loss|grad_norm|lr)|critic/vf_loss"
)
"""Names of verl and TRL that the doctor's rules use."""
_ALIASES = {
    name: metric
    for name, metric in metrics.ALIASES.items()
    if name.startswith(("reward", "mean_reward", "frac_reward", "completion"))
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
_OTHER_QUANTITY = frozenset(
    {
        *("val", "valid", "validation", "eval", "evaluation", "test", "critic", "value", "vf"),
        *("aux", "max", "min", "clip", "target", "best", "attempted", "init", "final"),
        *("prev", "last", "old", "skipped"),
    }
)
"""Words for another quantity, or for a setting."""


@lru_cache(maxsize=4096)
def metric_of(raw: str) -> str | None:
    """The canonical name, ``STEP`` for a counter of steps, None for an unknown quantity.

    Other words of the sentence may come before the name: ``the mean loss``.
    """
    words = re.sub(r"[- ]+", " ", raw.lower()).split(" ")
    for start in range(len(words)):
        if _OTHER_QUANTITY & {*words[:start]}:
            return None
        metric = _metric_named("_".join(words[start:]))
        if metric is not None:
            return metric
    return None


def _metric_named(name: str) -> str | None:
    if _KNOWN.fullmatch(name):
        return name
    name = name.removeprefix("train/")
    path, _, last = name.rpartition("/")
    if name in _ALIASES or _OTHER_QUANTITY & {*path.split("/")}:
        return _ALIASES.get(name)
    if path == "rewards" and last not in ("mean", "std", "min", "max"):
        return None  # TRL's reward components.
    return _metric_shaped(name) or (_metric_shaped(last) if path else None)


def _metric_shaped(name: str) -> str | None:
    metric = next((metric for shape, metric in _SHAPES if shape.fullmatch(name)), None)
    if metric == "response_length/mean" and not _LENGTHS.fullmatch(name):
        return None
    return metric
