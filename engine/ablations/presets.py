"""Arms that have a name of their own: the ablations of the GRubrics reward."""

from __future__ import annotations

from collections.abc import Mapping

PRESETS: Mapping[str, tuple[str, ...]] = {
    "no-excerpts": ("reward_config.use_contrastive=false",),
    "no-information": ("reward_config.lambda_info=0",),
    "no-defense": ("reward_config.lambda_defense=0",),
    "alignment-only": ("reward_config.lambda_info=0", "reward_config.lambda_defense=0"),
}
"""Overrides by name: without answer excerpts in the prompt, without the bonus for information,
without the penalty for equal scores, and without both terms."""

SHORT = {
    "A1": "no-excerpts",
    "A2": "no-information",
    "A3": "no-defense",
    "A4": "alignment-only",
}
"""The names of the same arms in launch guides."""


def preset_arm(name: str) -> tuple[str, tuple[str, ...]] | None:
    """The name and the overrides of a preset; None where there is none of that name."""
    full = SHORT.get(name, name)
    return (name, PRESETS[full]) if full in PRESETS else None
