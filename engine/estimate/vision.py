"""The part of a model of text and images that sees: a SigLIP encoder, and what leads to the text.

SigLIP: arXiv 2303.15343; its use in Gemma 3: arXiv 2503.19786.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class VisionTower:
    """Sizes as ``vision_config`` names them; ``patches``: of one image."""

    layers: int
    hidden: int
    intermediate: int
    patch: int
    patches: int

    @property
    def linears(self) -> Mapping[str, tuple[int, int]]:
        """``(in, out)`` of a layer's linear maps, which have biases."""
        square = (self.hidden, self.hidden)
        return {
            "q_proj": square,
            "k_proj": square,
            "v_proj": square,
            "out_proj": square,
            "fc1": (self.hidden, self.intermediate),
            "fc2": (self.intermediate, self.hidden),
        }

    def weights(self, text_hidden: int) -> int:
        """Weights of the encoder and of the projection to the hidden width of the text."""
        maps = sum(rows * columns + columns for rows, columns in self.linears.values())
        layer = maps + 2 * 2 * self.hidden
        embedding = 3 * self.patch**2 * self.hidden + self.hidden + self.patches * self.hidden
        projection = self.hidden * text_hidden + self.hidden
        return self.layers * layer + embedding + 2 * self.hidden + projection


def vision_tower(config: Mapping[str, Any]) -> VisionTower | None:
    """The tower in a ``vision_config``; None for another kind or a torn one."""
    if config.get("model_type") != "siglip_vision_model":
        return None
    try:
        patch = int(config["patch_size"])
        return VisionTower(
            layers=int(config["num_hidden_layers"]),
            hidden=int(config["hidden_size"]),
            intermediate=int(config["intermediate_size"]),
            patch=patch,
            patches=(int(config["image_size"]) // patch) ** 2,
        )
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None
