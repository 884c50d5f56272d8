"""What lies on the disk after a run: per checkpoint as verl writes it, and how many are kept."""

from __future__ import annotations

import math

from engine.estimate.breakdown import Breakdown, Part, breakdown
from engine.estimate.model_shape import ModelShape
from engine.recipe.recipe import Recipe
from engine.recipe.steps import step_plan

OTHER = 128 * 1024
"""Random state, schedule, place in the data, configuration and torch's own headers."""
TOKENIZER = 12 * 1024**2
"""Of a vocabulary of 150,000; verl writes it into every checkpoint."""
_SMALL_VOCABULARY = 10_000


def checkpoint(
    shape: ModelShape, stored: int, rank: int, trained: int, *, final: bool
) -> Breakdown:
    """One checkpoint of all ranks together (verl's ``fsdp_checkpoint_manager.py``).

    ``model`` holds every weight, adapters too, as it is ``stored``; ``optim`` two moments for
    each that is trained. ``final``: SFT also writes the model alone, adapters merged.
    """
    weights = shape.weights + (trained if rank else 0)
    names = TOKENIZER if shape.vocab > _SMALL_VOCABULARY else 0
    return breakdown(
        "checkpoint",
        [
            Part("model", weights * stored, f"{weights:,} x {stored} B"),
            Part("optim", 2 * trained * stored, f"2 x {trained:,} x {stored} B"),
            Part("tokenizer and others", OTHER + names, "the same for every model size"),
            Part("final model", shape.weights * stored if final else 0, "the weights alone"),
        ],
    )


def kept(recipe: Recipe) -> int:
    """How many checkpoints will lie on the disk at the end."""
    kind = recipe.kind
    every = int(recipe.get(kind.save_every_key, -1))
    if every <= 0:
        return int(kind.has_final_model)
    plan = step_plan(recipe)
    saves = math.ceil(plan.total / every) if plan is not None and plan.rows >= plan.batch else 1
    limit = recipe.get("trainer.max_actor_ckpt_to_keep")
    return saves if limit is None else min(saves, int(limit))
