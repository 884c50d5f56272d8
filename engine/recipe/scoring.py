"""What scores a config's rollouts: a judge with rubrics, or the config's own reward function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from engine.base.errors import UsageError
from engine.own_reward.function import KEY, RewardFunction
from engine.recipe.recipe import Recipe

if TYPE_CHECKING:
    from engine.reward.scorer import Scorer


def reward_function(recipe: Recipe) -> RewardFunction | None:
    """The function of ``reward.custom_reward_function``; None where the recipe names none."""
    section: dict[str, Any] = recipe.tree.get("reward", {}).get(KEY.rpartition(".")[2]) or {}
    return RewardFunction.of_section(section) if recipe.kind.has_rollouts else None


def scorer(recipe: Recipe) -> str:
    """What gives the rewards, in words."""
    function = reward_function(recipe)
    if function is not None:
        return f"rewards come from {function.label}"
    if asks_judge(recipe):
        return "rewards come from a judge that grades with rubrics"
    return "rewards come from a reward model"


def asks_judge(recipe: Recipe) -> bool:
    """Whether rewards come from a judge: not in SFT, nor with a function or model for them."""
    if not recipe.kind.has_rollouts or reward_function(recipe) is not None:
        return False
    return not recipe.get("reward.reward_model.enable", False)


def make_scorer(recipe: Recipe, env: Mapping[str, str]) -> Scorer:
    """What gives rollouts of this config their rewards, outside of the trainer.

    ``env`` holds the judge's credentials; what a reward function prints is dropped. UsageError
    without credentials, for a function that cannot be loaded, and where a reward model scores.
    """
    from engine.reward.scorer import BlockingScorer, Blocklist

    scorer = _make_scorer(recipe, env)
    blocklist = Blocklist.of_section(recipe.section("grubrics"))
    return scorer if blocklist is None else BlockingScorer(scorer, blocklist)


def _make_scorer(recipe: Recipe, env: Mapping[str, str]) -> Scorer:
    # Commands that only ask what scores need neither a judge nor processes.
    from engine.judge.settings import JudgeSettings, make_judge
    from engine.own_reward.processes import RewardProcesses, source_of
    from engine.reward.formula import RewardSettings
    from engine.reward.scorer import FunctionScorer, RubricScorer

    function = reward_function(recipe)
    if function is not None:
        limit_s = float(recipe.get("grubrics.reward_timeout_s"))
        processes = RewardProcesses(source_of(function), limit_s, quiet=True)
        return FunctionScorer(processes.score, processes.end)
    if not asks_judge(recipe):
        raise UsageError(f"{recipe.path}: {scorer(recipe)}, which only the trainer can use")
    judge = make_judge(JudgeSettings(**recipe.section("judge")), None, env)
    return RubricScorer(judge, RewardSettings(**recipe.section("reward_config")))
