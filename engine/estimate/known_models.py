"""Dimensions of models by name, so that a run can be estimated before a download.

From the ``config.json`` of each model's page on the hub (Qwen/..., meta-llama/..., google/...),
which its report tabulates too: Qwen2 arXiv 2407.10671, Qwen2.5 arXiv 2412.15115, Qwen3 arXiv
2505.09388, Llama 3 arXiv 2407.21783, Gemma arXiv 2403.08295, Gemma 2 arXiv 2408.00118, Gemma 3
arXiv 2503.19786. Base and instruct models have the same dimensions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def _config(
    family: str,
    layers: int,
    hidden: int,
    intermediate: int,
    heads: tuple[int, int],
    vocab: int,
    positions: int,
    *,
    tied: bool = False,
    head_dim: int | None = None,
) -> Mapping[str, Any]:
    """The fields of a ``config.json``; ``heads`` are those of the query and of key and value."""
    return {
        "model_type": family,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_attention_heads": heads[0],
        "num_key_value_heads": heads[1],
        "head_dim": head_dim,
        "vocab_size": vocab,
        "max_position_embeddings": positions,
        "tie_word_embeddings": tied,
    }


_QWEN2 = {
    "0.5b": _config("qwen2", 24, 896, 4864, (14, 2), 151936, 32768, tied=True),
    "1.5b": _config("qwen2", 28, 1536, 8960, (12, 2), 151936, 32768, tied=True),
    "3b": _config("qwen2", 36, 2048, 11008, (16, 2), 151936, 32768, tied=True),
    "7b": _config("qwen2", 28, 3584, 18944, (28, 4), 152064, 32768),
    "14b": _config("qwen2", 48, 5120, 13824, (40, 8), 152064, 32768),
    "32b": _config("qwen2", 64, 5120, 27648, (40, 8), 152064, 32768),
    "72b": _config("qwen2", 80, 8192, 29568, (64, 8), 152064, 32768),
}
_QWEN3 = {
    "0.6b": _config("qwen3", 28, 1024, 3072, (16, 8), 151936, 40960, tied=True, head_dim=128),
    "1.7b": _config("qwen3", 28, 2048, 6144, (16, 8), 151936, 40960, tied=True, head_dim=128),
    "4b": _config("qwen3", 36, 2560, 9728, (32, 8), 151936, 40960, tied=True, head_dim=128),
    "8b": _config("qwen3", 36, 4096, 12288, (32, 8), 151936, 40960, head_dim=128),
    "14b": _config("qwen3", 40, 5120, 17408, (40, 8), 151936, 40960, head_dim=128),
    "32b": _config("qwen3", 64, 5120, 25600, (64, 8), 151936, 40960, head_dim=128),
}
_LLAMA3 = {
    "llama-3-8b": _config("llama", 32, 4096, 14336, (32, 8), 128256, 8192),
    "llama-3-70b": _config("llama", 80, 8192, 28672, (64, 8), 128256, 8192),
    "llama-3.1-8b": _config("llama", 32, 4096, 14336, (32, 8), 128256, 131072),
    "llama-3.1-70b": _config("llama", 80, 8192, 28672, (64, 8), 128256, 131072),
    "llama-3.2-1b": _config("llama", 16, 2048, 8192, (32, 8), 128256, 131072, tied=True),
    "llama-3.2-3b": _config("llama", 28, 3072, 8192, (24, 8), 128256, 131072, tied=True),
}
_GEMMA = {
    "gemma-2b": _config("gemma", 18, 2048, 16384, (8, 1), 256000, 8192, tied=True, head_dim=256),
    "gemma-7b": _config("gemma", 28, 3072, 24576, (16, 16), 256000, 8192, tied=True, head_dim=256),
}
_GEMMA2 = {
    "2b": (26, 2304, 9216, (8, 4), 256),
    "9b": (42, 3584, 14336, (16, 8), 256),
    "27b": (46, 4608, 36864, (32, 16), 128),
}
_GEMMA3 = {
    "1b": (26, 1152, 6912, (4, 1), 256),
    "4b": (34, 2560, 10240, (8, 4), 256),
    "12b": (48, 3840, 15360, (16, 8), 256),
    "27b": (62, 5376, 21504, (32, 16), 128),
}


def _gemma2(size: str) -> Mapping[str, Any]:
    layers, hidden, intermediate, heads, width = _GEMMA2[size]
    sizes = (layers, hidden, intermediate, heads, 256000, 8192)
    return {
        **_config("gemma2", *sizes, tied=True, head_dim=width),
        "sliding_window": 4096,
        "final_logit_softcapping": 30.0,
    }


def _gemma3(size: str) -> Mapping[str, Any]:
    """The smallest is a language model alone, with an own vocabulary and window."""
    layers, hidden, intermediate, heads, width = _GEMMA3[size]
    vocab, positions = (262144, 32768) if size == "1b" else (262208, 131072)
    sizes = (layers, hidden, intermediate, heads, vocab, positions)
    text = {
        **_config("gemma3_text", *sizes, tied=True, head_dim=width),
        "sliding_window": 512 if size == "1b" else 1024,
    }
    if size == "1b":
        return text
    return {"model_type": "gemma3", "text_config": text, "vision_config": _SIGLIP}


_SIGLIP = {
    "model_type": "siglip_vision_model",
    "num_hidden_layers": 27,
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_attention_heads": 16,
    "image_size": 896,
    "patch_size": 14,
    "vision_use_head": False,
}

KNOWN: Mapping[str, Mapping[str, Any]] = {
    **{f"qwen2.5-{size}": config for size, config in _QWEN2.items()},
    **{f"qwen2-{size}": _QWEN2[size] for size in ("0.5b", "1.5b", "7b", "72b")},
    **{f"qwen3-{size}": config for size, config in _QWEN3.items()},
    **_GEMMA,
    **{f"gemma-2-{size}": _gemma2(size) for size in _GEMMA2},
    **{f"gemma-3-{size}": _gemma3(size) for size in _GEMMA3},
    **_LLAMA3,
    **{name.replace("llama", "meta-llama"): config for name, config in _LLAMA3.items()},
}
