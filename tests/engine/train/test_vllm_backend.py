"""What vLLM is given and what it returns. It needs a GPU, so its documented API stands in."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from engine.train import vllm_backend
from engine.train.generation import Request, Sampling
from tests.engine.train.conftest import SmallWorld

JOB = {
    "dtype": "float32",
    "device": "cuda",
    "chat_template": None,
    "template_key": "actor_rollout_ref.model.custom_chat_template",
    "seed": 1,
    "max_prompt_tokens": 100,
    "max_answer_tokens": 28,
    "vllm": {"tensor_parallel_size": 1, "gpu_memory_utilization": 0.5, "enforce_eager": False},
}


@dataclass(kw_only=True)
class SamplingParams:
    """The documented fields that are used; an unknown one is a TypeError, as in vLLM."""

    temperature: float
    top_p: float
    top_k: int
    repetition_penalty: float
    max_tokens: int
    seed: int
    stop_token_ids: list[int]
    detokenize: bool


@dataclass
class Engine:
    """Answers with the last token of the prompt and the stop token."""

    model: str
    dtype: str
    seed: int
    max_model_len: int
    tensor_parallel_size: int
    gpu_memory_utilization: float
    enforce_eager: bool
    seen: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        assert AutoModelForCausalLM.from_pretrained(self.model) is not None
        assert AutoTokenizer.from_pretrained(self.model).chat_template

    def generate(
        self,
        prompts: Sequence[dict[str, list[int]]],
        sampling_params: Sequence[SamplingParams],
        *,
        use_tqdm: bool,
    ) -> list[SimpleNamespace]:
        self.seen += zip(prompts, sampling_params, strict=True)
        return [
            SimpleNamespace(
                outputs=[
                    SimpleNamespace(
                        token_ids=(prompt["prompt_token_ids"][-1], settings.stop_token_ids[0])
                    )
                ]
            )
            for prompt, settings in zip(prompts, sampling_params, strict=True)
        ]


@pytest.fixture
def freed(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """A module ``vllm``; gets an entry each time the GPU is freed."""
    calls: list[bool] = []
    vllm, distributed = ModuleType("vllm"), ModuleType("vllm.distributed")
    vars(vllm).update(LLM=Engine, SamplingParams=SamplingParams)
    vars(distributed).update(cleanup_dist_env_and_memory=lambda: calls.append(True))
    monkeypatch.setitem(sys.modules, "vllm", vllm)
    monkeypatch.setitem(sys.modules, "vllm.distributed", distributed)
    return calls


def test_every_request_has_its_own_tokens_seed_and_budget(
    world: SmallWorld, freed: list[bool]
) -> None:
    requests = [Request([5, 6], 10, Sampling(temperature=0.7), 11), Request([7], 20, seed=12)]
    with vllm_backend.opened("model", str(world.model), JOB) as backend:
        made = backend.generate(requests)
        engine = backend.llm
    assert [each.tokens for each in made] == [[6, backend.stops[0]], [7, backend.stops[0]]]
    assert [prompt["prompt_token_ids"] for prompt, _ in engine.seen] == [[5, 6], [7]]
    settings = [each for _, each in engine.seen]
    assert [(each.seed, each.max_tokens) for each in settings] == [(11, 10), (12, 20)]
    assert settings[0].temperature == 0.7
    assert (engine.model, engine.max_model_len) == (str(world.model), 128)


def test_the_gpu_is_freed_for_the_next_target(world: SmallWorld, freed: list[bool]) -> None:
    for _ in range(2):
        with vllm_backend.opened("model", str(world.model), JOB):
            pass
        gc.collect()
    assert freed == [True, True]


def test_an_adapter_is_merged_into_a_folder_that_is_removed(
    world: SmallWorld, tmp_path: Path, freed: list[bool]
) -> None:
    from peft import LoraConfig, get_peft_model

    model = AutoModelForCausalLM.from_pretrained(world.model)
    get_peft_model(model, LoraConfig(r=2, target_modules=["q_proj"])).save_pretrained(tmp_path)
    with vllm_backend.opened("model", str(tmp_path), JOB) as backend:
        folder = Path(backend.llm.model)
        assert (folder / "model.safetensors").is_file()
        assert not (folder / "adapter_config.json").is_file()
    assert not folder.exists()


def test_without_a_gpu_or_vllm_it_is_not_used() -> None:
    assert not vllm_backend.is_available()
