"""What all answers of an evaluation have in common. Targets are comparable only under one setup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError
from engine.base.files import content_hash
from engine.evaluation.items import Item, digest
from engine.recipe.recipe import Recipe
from engine.recipe.scoring import asks_judge, reward_function


@dataclass(frozen=True)
class SamplingSettings:
    """How an answer is drawn. ``samples`` answers per item; ``seed`` fixes all random numbers."""

    samples: int
    seed: int
    temperature: float
    top_p: float
    top_k: int
    max_prompt_tokens: int
    max_answer_tokens: int


@dataclass(frozen=True)
class Setup:
    """Items, sampling and scoring. ``items_sha256`` covers every item in order; ``scoring`` holds
    the values of the config that decide a score."""

    data: str
    items: int
    items_sha256: str
    sampling: SamplingSettings
    scoring: dict[str, Any]

    @property
    def id(self) -> str:
        """The name of the evaluation's folder: the data file and a digest of the setup."""
        identity = {key: value for key, value in asdict(self).items() if key != "data"}
        return f"{Path(self.data).stem}-{digest(identity)[:8]}"


def make_setup(data: Path, items: Sequence[Item], recipe: Recipe, samples: int, seed: int) -> Setup:
    """The setup of ``recipe``'s validation: one greedy answer, or ``samples`` at its rollout's
    temperature. UsageError for a config without rollouts and for a bad number of samples."""
    if not recipe.kind.has_rollouts:
        raise UsageError(f"{recipe.path}: {recipe.kind.title} generates nothing to score")
    if samples < 1:
        raise UsageError(f"--samples {samples} must be at least 1")
    sampling = SamplingSettings(
        samples,
        seed,
        temperature=0.0 if samples == 1 else float(_rollout(recipe, "temperature", 1.0)),
        top_p=float(_rollout(recipe, "top_p", 1.0)),
        top_k=int(_rollout(recipe, "top_k", -1)),
        max_prompt_tokens=int(recipe.get("data.max_prompt_length")),
        max_answer_tokens=int(recipe.get("data.max_response_length")),
    )
    return Setup(
        str(data), len(items), digest([item.sha256 for item in items]), sampling, scoring_of(recipe)
    )


def _rollout(recipe: Recipe, name: str, default: float) -> Any:
    return recipe.get(f"actor_rollout_ref.rollout.{name}", default)


def scoring_of(recipe: Recipe) -> dict[str, Any]:
    """What decides a score: the function's source, or the judge and the weights of the reward."""
    function = reward_function(recipe)
    if function is not None:
        source = function.find_file()
        code = content_hash(source) if source is not None and source.is_file() else None
        return {"function": function.label, "sha256": code, "kwargs": dict(function.kwargs)}
    if not asks_judge(recipe):
        raise UsageError(f"{recipe.path}: only the trainer can use a reward model")
    judge = recipe.section("judge")
    asked = {
        key: judge.get(key)
        for key in ("provider", "model", "base_url", "temperature", "max_tokens")
    }
    return {"judge": asked, "reward": recipe.section("reward_config")}
