"""The dimensions of a decoder-only language model, and how many weights they make.

Qwen2, Qwen2.5, Qwen3 and Llama 3 are one family: RMSNorm, rotary positions, grouped-query attention
and a gated (SwiGLU) feed-forward part. They differ in biases and in the norm of query and key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import jsonl
from engine.estimate.known_models import KNOWN
from engine.launch.recipe import Recipe
from engine.preflight.models import local_folder, model_name

FAMILIES = ("qwen2", "qwen3", "llama")
"""Values of ``model_type`` whose weights are counted here; others have other parts."""


@dataclass(frozen=True)
class ModelShape:
    """Sizes as ``config.json`` names them; ``heads`` x ``head_dim`` need not be ``hidden``."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    positions: int
    tied: bool = False
    """One matrix is input embedding and output head."""
    qkv_bias: bool = False
    qk_norm: bool = False

    @property
    def query(self) -> int:
        """Numbers of a token's query."""
        return self.heads * self.head_dim

    @property
    def key_value(self) -> int:
        """Numbers of a token's key; its value has as many."""
        return self.kv_heads * self.head_dim

    @property
    def linears(self) -> Mapping[str, tuple[int, int]]:
        """``(in, out)`` of a layer's linear maps."""
        return {
            "q_proj": (self.hidden, self.query),
            "k_proj": (self.hidden, self.key_value),
            "v_proj": (self.hidden, self.key_value),
            "o_proj": (self.query, self.hidden),
            "gate_proj": (self.hidden, self.intermediate),
            "up_proj": (self.hidden, self.intermediate),
            "down_proj": (self.intermediate, self.hidden),
        }

    @property
    def layer_weights(self) -> int:
        """Weights of one layer, its norms and biases included."""
        bias = self.query + 2 * self.key_value if self.qkv_bias else 0
        norms = 2 * self.hidden + (2 * self.head_dim if self.qk_norm else 0)
        return sum(rows * columns for rows, columns in self.linears.values()) + bias + norms

    @property
    def outer_weights(self) -> int:
        """Weights outside of the layers: embedding, output head, last norm."""
        return self.vocab * self.hidden * (1 if self.tied else 2) + self.hidden

    @property
    def weights(self) -> int:
        """Every weight once, as ``sum(p.numel() for p in model.parameters())`` counts."""
        return self.layers * self.layer_weights + self.outer_weights

    def lora_weights(self, rank: int, targets: str | list[str] = "all-linear") -> int:
        """Weights of LoRA adapters: ``rank`` x (in + out) for each adapted map (arXiv 2106.09685).

        ``all-linear`` adapts every linear map but the output head, as PEFT does.
        """
        sizes = [self.linears[name] for name in self.adapted(targets)]
        return self.layers * rank * sum(rows + columns for rows, columns in sizes)

    def adapted(self, targets: str | list[str]) -> list[str]:
        """The linear maps of a layer that PEFT adapts for ``target_modules``.

        A list names the ends of modules' names; a text is a pattern of whole names. Of a pattern
        the first layer stands for all.
        """
        if targets == "all-linear":
            return list(self.linears)
        if isinstance(targets, str):
            try:
                pattern = re.compile(targets)
            except re.error:
                return []
            return [name for name in self.linears if pattern.fullmatch(_module(name))]
        return [name for name in self.linears if any(_ends(name, target) for target in targets)]


def _module(name: str) -> str:
    """Where a linear map is in the families that are known here."""
    part = "mlp" if name in ("gate_proj", "up_proj", "down_proj") else "self_attn"
    return f"model.layers.0.{part}.{name}"


def _ends(name: str, target: str) -> bool:
    return f".{_module(name)}".endswith(f".{target}")


def from_config(config: Mapping[str, Any]) -> ModelShape | None:
    """The shape in a ``config.json``; None for a family that is not known or a torn file."""
    if config.get("model_type") not in FAMILIES:
        return None
    try:
        heads, hidden = int(config["num_attention_heads"]), int(config["hidden_size"])
        return ModelShape(
            layers=int(config["num_hidden_layers"]),
            hidden=hidden,
            intermediate=int(config["intermediate_size"]),
            heads=heads,
            kv_heads=int(config.get("num_key_value_heads") or heads),
            head_dim=int(config.get("head_dim") or hidden // heads),
            vocab=int(config["vocab_size"]),
            positions=_positions(config),
            tied=bool(config.get("tie_word_embeddings", False)),
            qkv_bias=config["model_type"] == "qwen2" or bool(config.get("attention_bias")),
            qk_norm=config["model_type"] == "qwen3",
        )
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None


def _positions(config: Mapping[str, Any]) -> int:
    """Scaled rotary positions (YaRN and others) reach farther than the model was trained for."""
    trained = int(config.get("max_position_embeddings") or 0)
    scaling = config.get("rope_scaling") or config.get("rope_parameters")
    if not isinstance(scaling, Mapping):
        return trained
    original = int(scaling.get("original_max_position_embeddings") or trained)
    return max(trained, int(original * float(scaling.get("factor") or 1)))


def known(name: str) -> ModelShape | None:
    """The shape of a model named as on the hub, ``owner/model``, without asking the hub."""
    last = name.rstrip("/").rpartition("/")[2].lower()
    for suffix in ("-instruct", "-base", "-chat"):
        last = last.removesuffix(suffix)
    found = KNOWN.get(last)
    return None if found is None else from_config(found)


def shape_of(recipe: Recipe, env: Mapping[str, str]) -> ModelShape | None:
    """The recipe's model: from its folder, the hub's cache, or the table of known names."""
    name = model_name(recipe)
    folder = local_folder(name, env)
    if folder is not None and (found := _in_folder(folder)) is not None:
        return found
    return known(name)


def _in_folder(folder: Path) -> ModelShape | None:
    config = jsonl.read_json(folder / "config.json")
    return None if config is None else from_config(config)
