"""What all answers of an evaluation have in common. Targets are comparable only under one setup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.base.errors import UsageError
from engine.base.files import content_hash
from engine.evaluation.items import Item, digest
from engine.evaluation.targets import judge_identity
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
    filter_long_prompts: bool
    """``data.filter_overlong_prompts``: prompts above ``max_prompt_tokens`` get no answer."""
    template_arguments: dict[str, Any]
    chat_template: str | None
    """In place of the one that each model brings."""


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


def validation_file(recipe: Recipe) -> Path:
    """The items that the config validates on. UsageError for a config without rollouts, without
    such a file and with several."""
    _require_rollouts(recipe)
    value = recipe.get("data.val_files")
    files = value if isinstance(value, list) else [value] if value else []
    if len(files) != 1:
        raise UsageError(
            f"{recipe.path}: data.val_files names {len(files)} files; name one with --data"
        )
    return Path(str(files[0]))


def _require_rollouts(recipe: Recipe) -> None:
    if not recipe.kind.has_rollouts:
        raise UsageError(
            f"{recipe.path}: {recipe.kind.title} generates nothing to score. Score its answers as "
            "another config does: grubrics-tui evaluate RUN --config CONFIG"
        )


def make_setup(data: Path, items: Sequence[Item], recipe: Recipe, samples: int, seed: int) -> Setup:
    """The setup of ``recipe``'s validation: one greedy answer, or ``samples`` at its rollout's
    temperature. UsageError for a config without rollouts and for a bad number of samples."""
    _require_rollouts(recipe)
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
        filter_long_prompts=bool(recipe.get("data.filter_overlong_prompts")),
        template_arguments=recipe.tree.get("data", {}).get("apply_chat_template_kwargs") or {},
        chat_template=str(recipe.get(recipe.kind.template_key or "") or "") or None,
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
    return {"judge": judge_identity(recipe), "reward": recipe.section("reward_config")}
