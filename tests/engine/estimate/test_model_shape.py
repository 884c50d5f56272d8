"""Weights are counted as torch counts them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.estimate.known_models import KNOWN
from engine.estimate.model_shape import ModelShape, from_config, known


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("Qwen/Qwen2.5-0.5B-Instruct", 494_032_768),
        ("Qwen/Qwen2-7B", 7_615_616_512),
        ("Qwen/Qwen3-8B", 8_190_735_360),
        ("Qwen/Qwen3-0.6B-Base", 596_049_920),
        ("meta-llama/Meta-Llama-3-8B", 8_030_261_248),
        ("meta-llama/Llama-3.2-1B-Instruct", 1_235_814_400),
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


def test_scaled_positions_reach_farther() -> None:
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    shape = from_config({**KNOWN["qwen2.5-7b"], "rope_scaling": scaling})
    assert shape is not None and shape.positions == 4 * 32768


def test_lora_adapters_of_named_maps_are_counted_alone() -> None:
    shape = ModelShape(2, 8, 16, 2, 1, 4, 100, 64)
    assert shape.lora_weights(3, ["q_proj"]) == 2 * 3 * (8 + 8)
    assert shape.lora_weights(3, "all-linear") > shape.lora_weights(3, ["q_proj", "o_proj"])


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(KNOWN))
def test_every_known_model_has_as_many_weights_as_transformers_builds(name: str) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = {key: value for key, value in KNOWN[name].items() if value is not None}
    family = {"qwen2": "Qwen2", "qwen3": "Qwen3", "llama": "Llama"}[config.pop("model_type")]
    with torch.device("meta"):
        built = getattr(transformers, f"{family}ForCausalLM")(
            getattr(transformers, f"{family}Config")(**config)
        )
    shape = known(name)
    assert shape is not None and shape.weights == built.num_parameters()


def test_the_shape_of_a_folder_is_read_from_its_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(KNOWN["qwen3-8b"] | {"x": 1}))
    assert from_config(json.loads((tmp_path / "config.json").read_text())) == known("Qwen3-8B")


def test_lora_targets_are_found_as_peft_finds_them() -> None:
    shape = known("Qwen/Qwen3-8B")
    assert shape is not None
    assert shape.adapted(["q_proj", "self_attn.o_proj"]) == ["q_proj", "o_proj"]
    assert shape.adapted(r".*\.(q|v)_proj") == ["q_proj", "v_proj"]
    assert shape.adapted("q_proj,v_proj") == []
    assert shape.adapted("q_proj") == []
    assert shape.adapted("(") == []
