"""The lowest and the highest reward that a recipe's own arithmetic allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_CHARS_A_TOKEN = 12
"""More than any tokenizer's mean over a text; single tokens may be longer."""


def reward_range(recipe: Mapping[str, Any]) -> tuple[float, float] | None:
    """None where another reward function is used or the weights are not known.

    Best: alignment 1 and all of the information bonus. Worst: alignment -1, no spread, and a
    rubric as long as a response may be (see ``engine.reward.formula``).
    """
    if recipe.get("reward.custom_reward_function.path"):
        return None
    names = ("lambda_len", "lambda_info", "lambda_defense", "char_threshold")
    values = [recipe.get(f"reward_config.{name}") for name in names]
    tokens = recipe.get("data.max_response_length")
    if not all(isinstance(value, int | float) for value in (*values, tokens)):
        return None
    by_length, by_info, by_defense, threshold = (float(value or 0) for value in values)
    longest = max(0.0, _CHARS_A_TOKEN * float(tokens or 0) - threshold) / max(threshold, 1.0)
    overlong = _overlong(recipe, float(tokens or 0))
    return -1.0 - by_defense - by_length * longest - overlong, 1.0 + by_info


def _overlong(recipe: Mapping[str, Any], tokens: float) -> float:
    """What the longest response loses by its length (see ``engine.train.reward_entry``)."""
    section = "reward.reward_kwargs.overlong_buffer_cfg"
    names = (f"{section}.len", f"{section}.penalty_factor", "reward.reward_kwargs.max_resp_len")
    values = [recipe.get(name) for name in names]
    if not recipe.get(f"{section}.enable") or not all(isinstance(v, int | float) for v in values):
        return 0.0
    buffer, factor, limit = (float(value or 0) for value in values)
    return max(0.0, (tokens - limit + buffer) / max(buffer, 1.0) * factor)
