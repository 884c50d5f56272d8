"""Dimensions of a model from its ``config.json``, with the defaults of its model family, or from
the table of known models. Both are in ``models.yaml``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.base.errors import shorten
from engine.base.yaml_files import read_table
from engine.config.load import Config
from engine.config.places import local_folder, model_name


@dataclass(frozen=True)
class Family:
    """What models of one ``model_type`` share; ``models.yaml`` explains the fields."""

    norms: int = 2
    qk_norm: bool = False
    qkv_bias: bool = False
    fp32_norms: bool = False
    window_every: int = 0
    scales_positions: bool = True
    defaults: Mapping[str, Any] = field(default_factory=dict)


@cache
def _tables() -> Mapping[str, Any]:
    tables: dict[str, Any] = read_table(_TABLES)
    return tables


_TABLES = Path(__file__).with_name("models.yaml")
_COLUMNS = (
    *("model_type", "num_hidden_layers", "hidden_size", "intermediate_size"),
    *("num_attention_heads", "num_key_value_heads", "vocab_size", "max_position_embeddings"),
    "head_dim",
)


@cache
def known_configs() -> Mapping[str, Mapping[str, Any]]:
    """What the ``config.json`` of known models holds, by the last part of their names."""
    tables, configs = _tables(), {}
    for names, row in tables["rows"].items():
        for name in names.split():
            others = (more for start, more in tables["others"].items() if name.startswith(start))
            config = dict(zip(_COLUMNS, row, strict=False)) | next(others, {})
            config["tie_word_embeddings"] = row[-1] == "tied"
            if name in tables["with_vision"]:
                vision = {"vision_config": tables["vision_config"]}
                config = {"model_type": "gemma3", "text_config": config, **vision}
            configs[name] = config
    return configs


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


_NESTED = {"gemma3": "gemma3_text"}
"""Models of text and images, whose language model is in ``text_config``."""


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
    out_bias: bool = False
    qk_norm: bool = False
    norms: int = 2
    """Norms of the hidden width in a layer."""
    fp32_norms: bool = False
    """They multiply by their weight in fp32, as Gemma's do."""
    window: int = 0
    """Tokens that ``windowed`` of the layers see; the others see all."""
    windowed: int = 0
    soft_capped: bool = False
    """The logits go through a scaled tanh, as Gemma 2's do."""
    vision: VisionTower | None = None

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
        bias += self.hidden if self.out_bias else 0
        norms = self.norms * self.hidden + (2 * self.head_dim if self.qk_norm else 0)
        return sum(rows * columns for rows, columns in self.linears.values()) + bias + norms

    @property
    def outer_weights(self) -> int:
        """Weights outside of the layers: embedding, output head, last norm."""
        return self.vocab * self.hidden * (1 if self.tied else 2) + self.hidden

    @property
    def weights(self) -> int:
        """Every weight once, as ``sum(p.numel() for p in model.parameters())`` counts."""
        seen = self.vision.weights(self.hidden) if self.vision else 0
        return self.layers * self.layer_weights + self.outer_weights + seen

    def kv_numbers(self, tokens: int) -> int:
        """Numbers of the keys and values of a sample: 2 x layers x their width for each token
        (arXiv 2309.06180, section 3), of layers with a window for the tokens in it."""
        seen = min(tokens, self.window) if self.window else tokens
        cells = (self.layers - self.windowed) * tokens + self.windowed * seen
        return 2 * self.key_value * cells

    def lora_parts(
        self, rank: int, targets: str | list[str] = "all-linear", excluded: str | list[str] = ""
    ) -> list[Adapters]:
        """The adapters of each linear map that PEFT adapts for ``target_modules`` without
        ``exclude_modules``; ``all-linear`` is every one but the output head."""
        parts = []
        for stack in self._stacks:
            for name, (rows, columns) in stack.linears.items():
                module = stack.module(name)
                if _matches(module, targets) and not _matches(module, excluded):
                    label = f"{stack.name}{name}"
                    parts.append(Adapters(label, stack.layers, rows, columns, rank))
        return parts

    def adapted(self, targets: str | list[str]) -> list[str]:
        """The linear maps of a layer that PEFT adapts for ``target_modules``.

        A list names the ends of modules' names; a text is a pattern of whole names. Of a pattern
        the first layer stands for all.
        """
        return [part.name for part in self.lora_parts(1, targets)]

    @property
    def _stacks(self) -> list[_Stack]:
        """Layers that are built alike."""
        prefix = "model.language_model.layers.0" if self.vision else "model.layers.0"
        text = _Stack("", prefix, ("gate_proj", "up_proj", "down_proj"), self.layers, self.linears)
        if self.vision is None:
            return [text]
        tower, feed_forward = self.vision, ("fc1", "fc2")
        prefix = "model.vision_tower.encoder.layers.0"
        return [text, _Stack("vision ", prefix, feed_forward, tower.layers, tower.linears)]


@dataclass(frozen=True)
class Adapters:
    """LoRA adapters of one linear map in each of ``layers`` layers."""

    name: str
    layers: int
    rows: int
    columns: int
    rank: int

    @property
    def weights(self) -> int:
        return self.layers * self.rank * (self.rows + self.columns)


@dataclass(frozen=True)
class _Stack:
    name: str
    prefix: str
    feed_forward: tuple[str, ...]
    layers: int
    linears: Mapping[str, tuple[int, int]]

    def module(self, name: str) -> str:
        """Where a linear map of the first layer is."""
        return f"{self.prefix}.{'mlp' if name in self.feed_forward else 'self_attn'}.{name}"


def _matches(module: str, targets: str | list[str]) -> bool:
    """``peft.tuners.tuners_utils.check_target_module_exists``."""
    if isinstance(targets, list):
        return any(f".{module}".endswith(f".{target}") for target in targets)
    if targets.lower() == "all-linear":
        return True
    try:
        return re.fullmatch(targets, module) is not None
    except re.error:
        return False


def from_config(config: Mapping[str, Any]) -> ModelShape | None:
    """The shape in a ``config.json``; None for a family that is not known or a torn file."""
    nested = _NESTED.get(str(config.get("model_type")))
    if nested is None:
        return _language_model(config)
    inner, seen = config.get("text_config"), config.get("vision_config")
    if not isinstance(inner, Mapping) or not isinstance(seen, Mapping):
        return None
    text, vision = _language_model({**inner, "model_type": nested}), vision_tower(seen)
    return replace(text, vision=vision) if text and vision else None


def _language_model(config: Mapping[str, Any]) -> ModelShape | None:
    model_type = str(config.get("model_type"))
    if model_type not in _tables()["families"]:
        return None
    family = Family(**_tables()["families"][model_type])
    values = {**family.defaults, **config}
    try:
        heads, hidden = int(values["num_attention_heads"]), int(values["hidden_size"])
        layers = int(values["num_hidden_layers"])
        return ModelShape(
            layers=layers,
            hidden=hidden,
            intermediate=int(values["intermediate_size"]),
            heads=heads,
            kv_heads=int(values.get("num_key_value_heads") or heads),
            head_dim=int(values.get("head_dim") or hidden // heads),
            vocab=int(values["vocab_size"]),
            positions=_positions(values, family),
            tied=bool(values.get("tie_word_embeddings", False)),
            qkv_bias=family.qkv_bias or bool(values.get("attention_bias")),
            out_bias=bool(values.get("attention_bias")),
            qk_norm=family.qk_norm,
            norms=family.norms,
            fp32_norms=family.fp32_norms,
            window=int(values.get("sliding_window") or 0),
            windowed=windowed_layers(values, family, layers),
            soft_capped=bool(values.get("final_logit_softcapping")),
        )
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None


def _positions(config: Mapping[str, Any], family: Family) -> int:
    """Scaled rotary positions (YaRN and others) reach farther than the model was trained for."""
    trained = int(config.get("max_position_embeddings") or 0)
    scaling = config.get("rope_scaling") or config.get("rope_parameters")
    if not isinstance(scaling, Mapping) or not family.scales_positions:
        return trained
    original = int(scaling.get("original_max_position_embeddings") or trained)
    return max(trained, int(original * float(scaling.get("factor") or 1)))


def known(name: str) -> ModelShape | None:
    """The shape of a model named as on the hub, ``owner/model``, without asking the hub."""
    last = name.rstrip("/").rpartition("/")[2].lower()
    for suffix in ("-instruct", "-base", "-chat", "-it", "-pt"):
        last = last.removesuffix(suffix)
    return from_config(known_configs().get(last, {}))


def shape_of(config: Config, env: Mapping[str, str]) -> ModelShape | None:
    """The config's model: from its folder, the hub's cache, or the table of known names."""
    name = model_name(config)
    return from_config(_read_config(name, env)) or known(name)


def why_unknown(config: Config, env: Mapping[str, str]) -> str:
    """Why ``shape_of`` is None; only then is it true."""
    given = _read_config(model_name(config), env).get("model_type")
    if isinstance(given, str) and given not in _tables()["families"]:
        return f"the sizes of models of model_type '{shorten(given)}' are not known"
    return "the model's directory has no config.json with dimensions"


def context_of(name: str, env: Mapping[str, str]) -> int:
    """The context of a model in tokens, also of an unknown family; 0 if nothing says it."""
    config = _read_config(name, env)
    shape = from_config(config) or known(name)
    return _stated_context(config) if shape is None else shape.positions


_CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx")
"""Names of the context in a ``config.json``, as vLLM reads them."""


def _stated_context(config: Mapping[str, Any]) -> int:
    """The context that a ``config.json`` states, at its top or for the text of a larger model."""
    inner = config.get("text_config")
    values = {**(inner if isinstance(inner, Mapping) else {}), **config}
    try:
        stated = next((int(values[key]) for key in _CONTEXT_KEYS if values.get(key)), 0)
        return _positions({**values, "max_position_embeddings": stated}, Family())
    except (TypeError, ValueError):
        return 0


def _read_config(name: str, env: Mapping[str, str]) -> dict[str, Any]:
    """The ``config.json`` of a model; empty if it is not on the disk, or torn."""
    folder = local_folder(name, env)
    return {} if folder is None else jsonl.read_json(folder / "config.json") or {}
