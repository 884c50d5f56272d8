"""Weights are counted as torch counts them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.base import jsonl
from engine.checks.estimate.model_shape import (
    ModelShape,
    context_of,
    from_config,
    known,
    known_configs,
    shape_of,
    why_unknown,
)
from engine.config.load import load_config

KNOWN = known_configs()


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("Qwen/Qwen2.5-0.5B-Instruct", 494_032_768),
        ("Qwen/Qwen2-7B", 7_615_616_512),
        ("Qwen/Qwen3-8B", 8_190_735_360),
        ("Qwen/Qwen3-0.6B-Base", 596_049_920),
        ("meta-llama/Meta-Llama-3-8B", 8_030_261_248),
        ("meta-llama/Llama-3.2-1B-Instruct", 1_235_814_400),
        ("google/gemma-7b-it", 8_537_680_896),
        ("google/gemma-2-9b-it", 9_241_705_984),
        ("google/gemma-3-1b-it", 999_885_952),
        ("google/gemma-3-27b-it", 27_432_406_640),
    ],
)
def test_named_models_have_the_weights_their_reports_say(name: str, weights: int) -> None:
    shape = known(name)
    assert shape is not None and shape.weights == weights


def test_a_name_that_nobody_knows_has_no_shape() -> None:
    assert known("somebody/else-9B") is None


def test_another_family_or_a_torn_file_has_no_shape() -> None:
    assert from_config({"model_type": "mamba"}) is None
    assert from_config({"model_type": "llama", "hidden_size": "wide"}) is None


def test_what_a_config_leaves_out_is_its_familys_default() -> None:
    """The published ``config.json`` of gemma-3-4b names only what differs from the defaults."""
    text = {
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "model_type": "gemma3_text",
        "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    }
    shape = from_config({**KNOWN["gemma-3-4b"], "text_config": text})
    assert shape == known("google/gemma-3-4b-it")
    assert shape is not None and shape.positions == 131_072
    vision = {"model_type": "other"}
    assert from_config({**KNOWN["gemma-3-4b"], "vision_config": vision}) is None


@pytest.mark.parametrize(
    ("name", "windowed"),
    [("gemma-2-9b", 21), ("gemma-3-1b", 22), ("gemma-3-4b", 29), ("qwen2.5-7b", 0)],
)
def test_layers_with_a_window_keep_the_tokens_in_it(name: str, windowed: int) -> None:
    shape = known(name)
    assert shape is not None and shape.windowed == windowed
    token, beyond = shape.kv_numbers(1), 2 * shape.key_value * (shape.layers - windowed)
    assert shape.kv_numbers(shape.window + 10) == shape.window * token + 10 * beyond


def test_mistral_and_listed_layer_types_have_windows() -> None:
    mistral = {**KNOWN["llama-3-8b"], "model_type": "mistral", "sliding_window": 4096}
    qwen = {**KNOWN["qwen3-8b"], "use_sliding_window": True, "max_window_layers": 30}
    for config, windowed in (
        (mistral, 32),
        ({**mistral, "sliding_window": None}, 0),
        ({**qwen, "sliding_window": 4096}, 6),
        ({**mistral, "layer_types": ["sliding_attention", "full_attention"] * 16}, 16),
    ):
        shape = from_config(config)
        assert shape is not None and shape.windowed == windowed


def test_scaled_positions_reach_farther() -> None:
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    shape = from_config({**KNOWN["qwen2.5-7b"], "rope_scaling": scaling})
    assert shape is not None and shape.positions == 4 * 32768


@pytest.mark.parametrize(
    ("config", "tokens"),
    [
        ({**KNOWN["qwen2.5-7b"], "max_position_embeddings": 512}, 512),
        ({"model_type": "phi3", "max_position_embeddings": 4096}, 4096),
        ({"model_type": "gpt2", "n_positions": 1024, "n_ctx": 2048}, 1024),
        ({"model_type": "vlm", "text_config": {"max_position_embeddings": 640}}, 640),
        ({"max_position_embeddings": 512, "rope_scaling": {"factor": 2.0}}, 1024),
        ({"max_position_embeddings": "many"}, 0),
        ({"model_type": "mamba"}, 0),
    ],
)
def test_the_context_of_any_family_is_read(
    tmp_path: Path, config: Mapping[str, Any], tokens: int
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert context_of(str(tmp_path), {}) == tokens


def test_the_context_of_a_model_on_the_hub_is_known_by_its_name(tmp_path: Path) -> None:
    env = {"HF_HUB_CACHE": str(tmp_path)}
    assert context_of("Qwen/Qwen2.5-0.5B-Instruct", env) == 32_768
    assert context_of("somebody/else-9B", env) == 0


def test_lora_adapters_of_named_maps_are_counted_alone() -> None:
    shape = ModelShape(2, 8, 16, 2, 1, 4, 100, 64)
    (part,) = shape.lora_parts(3, ["q_proj"])
    assert part.weights == 2 * 3 * (8 + 8)
    assert len(shape.lora_parts(3, "all-linear")) > len(shape.lora_parts(3, ["q_proj", "o_proj"]))


def build(config: Mapping[str, Any]) -> Any:
    """The model of a ``config.json``, without memory for its weights."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    given = {key: value for key, value in config.items() if value is not None}
    made = transformers.AutoConfig.for_model(**given)
    nested = given["model_type"] == "gemma3"
    auto = transformers.AutoModelForImageTextToText if nested else transformers.AutoModelForCausalLM
    with torch.device("meta"):
        return auto.from_config(made)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(KNOWN))
def test_every_known_model_has_as_many_weights_as_transformers_builds(name: str) -> None:
    shape = known(name)
    assert shape is not None and shape.weights == build(KNOWN[name]).num_parameters()


@pytest.mark.row("A05")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["gemma-2-2b", "gemma-3-4b", "qwen2.5-0.5b"])
@pytest.mark.parametrize(
    ("targets", "excluded"),
    [("all-linear", None), (["q_proj", "out_proj"], None), ("all-linear", ".*vision_tower.*")],
)
def test_peft_makes_as_many_adapters(name: str, targets: Any, excluded: str | None) -> None:
    peft = pytest.importorskip("peft")
    lora = peft.LoraConfig(r=8, target_modules=targets, exclude_modules=excluded)
    made = peft.get_peft_model(build(KNOWN[name]), lora, low_cpu_mem_usage=True)
    shape = known(name)
    assert shape is not None
    counted = sum(part.weights for part in shape.lora_parts(8, targets, excluded or ""))
    assert counted == made.get_nb_trainable_parameters()[0]


def test_the_shape_of_a_folder_is_read_from_its_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**KNOWN["qwen3-8b"], "x": 1}))
    assert from_config(json.loads((tmp_path / "config.json").read_text())) == known("Qwen3-8B")


def test_lora_targets_are_found_as_peft_finds_them() -> None:
    shape = known("Qwen/Qwen3-8B")
    assert shape is not None
    assert shape.adapted(["q_proj", "self_attn.o_proj"]) == ["q_proj", "o_proj"]
    assert shape.adapted(r".*\.(q|v)_proj") == ["q_proj", "v_proj"]
    assert shape.adapted("q_proj,v_proj") == []
    assert shape.adapted("q_proj") == []
    assert shape.adapted("(") == []


def test_an_unknown_type_of_model_is_named(tmp_path: Path) -> None:
    jsonl.write_json(tmp_path / "config.json", {"model_type": "mamba", "hidden_size": 64})
    config = load_config("grpo_tiny", [f"actor_rollout_ref.model.path={tmp_path}"], {})
    assert shape_of(config, {}) is None
    assert "model_type 'mamba'" in why_unknown(config, {})
