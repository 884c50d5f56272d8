"""What scores a recipe's rollouts: a judge with rubrics, or a function of the recipe's own."""

from __future__ import annotations

from typing import Any

from engine.own_reward.function import KEY, RewardFunction
from engine.recipe.recipe import Recipe


def reward_function(recipe: Recipe) -> RewardFunction | None:
    """The function of ``reward.custom_reward_function``; None where the recipe names none."""
    section: dict[str, Any] = recipe.tree.get("reward", {}).get(KEY.rpartition(".")[2]) or {}
    return RewardFunction.of_section(section) if recipe.kind.has_rollouts else None


def scorer(recipe: Recipe) -> str:
    """What gives the rewards where no judge does, in words."""
    function = reward_function(recipe)
    if function is not None:
        return f"rewards come from {function.label}"
    return "rewards come from a reward model"


def asks_judge(recipe: Recipe) -> bool:
    """Whether rewards come from a judge: not in SFT, nor with a function or model for them."""
    if not recipe.kind.has_rollouts or reward_function(recipe) is not None:
        return False
    return not recipe.get("reward.reward_model.enable", False)
