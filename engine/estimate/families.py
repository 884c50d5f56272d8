"""What the families of models differ in, and what their ``config.json`` leaves unsaid.

A ``config.json`` holds what differs from the defaults of its family's class in transformers, so the
defaults that published models rely on are needed to read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Family:
    """``norms``: RMSNorms of the hidden width in each layer. ``fp32_norms``: they multiply by their
    weight in fp32. ``window_every``: every layer but each n-th sees a window only (0: as the config
    says). ``defaults``: values of absent keys."""

    norms: int = 2
    qk_norm: bool = False
    qkv_bias: bool = False
    fp32_norms: bool = False
    window_every: int = 0
    scales_positions: bool = True
    """Whether ``max_position_embeddings`` is meant before rotary positions are scaled."""
    defaults: Mapping[str, Any] = field(default_factory=dict)


_GEMMA2_DEFAULTS = {
    "tie_word_embeddings": True,
    "head_dim": 256,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "sliding_window": 4096,
}

FAMILIES: Mapping[str, Family] = {
    "qwen2": Family(qkv_bias=True),
    "qwen3": Family(qk_norm=True, defaults={"head_dim": 128}),
    "llama": Family(),
    "mistral": Family(window_every=-1),
    "gemma": Family(fp32_norms=True, defaults={"tie_word_embeddings": True, "head_dim": 256}),
    "gemma2": Family(
        norms=4,
        fp32_norms=True,
        window_every=2,
        defaults={**_GEMMA2_DEFAULTS, "vocab_size": 256_000, "final_logit_softcapping": 30.0},
    ),
    "gemma3_text": Family(
        norms=4,
        qk_norm=True,
        fp32_norms=True,
        window_every=6,
        scales_positions=False,
        defaults={
            **_GEMMA2_DEFAULTS,
            "vocab_size": 262_208,
            "max_position_embeddings": 131_072,
        },
    ),
}
"""By ``model_type``; weights of others are not counted, as they have other parts."""


def windowed_layers(config: Mapping[str, Any], family: Family, layers: int) -> int:
    """How many layers see only the last ``sliding_window`` tokens."""
    if not config.get("sliding_window"):
        return 0
    types = config.get("layer_types")
    if isinstance(types, list):
        return sum(kind == "sliding_attention" for kind in types)
    if family.window_every < 0:
        return layers
    every = int(config.get("sliding_window_pattern") or family.window_every)
    if family.window_every:
        return layers - layers // every
    if not config.get("use_sliding_window"):
        return 0
    return max(0, layers - int(config.get("max_window_layers") or layers))
