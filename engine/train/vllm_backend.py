"""Answers by vLLM, where the config's rollouts come from it and there is a GPU.

Only what vLLM documents for offline use: ``LLM``, ``SamplingParams``, prompts as token IDs, and
``cleanup_dist_env_and_memory`` to free the GPU for the next target.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from engine.train.backends import is_adapter, load_target, load_tokenizer
from engine.train.generation import Generated, Request
from engine.train.hf_server import stop_tokens


def is_available() -> bool:
    """Whether vLLM is installed and there is a GPU for it."""
    import torch

    return find_spec("vllm") is not None and torch.cuda.is_available()


@dataclass(frozen=True)
class VllmBackend:
    """A loaded engine; vLLM batches on its own."""

    llm: Any
    tokenizer: Any
    stops: list[int]
    model_type: str
    batch: int = 512
    """Answers between two writes."""
    name: str = "vllm"

    def generate(self, requests: Sequence[Request]) -> list[Generated]:
        """Continue every request until a stop token, which is kept, or its budget."""
        prompts = [{"prompt_token_ids": request.prompt} for request in requests]
        settings = [self._settings(request) for request in requests]
        outputs = self.llm.generate(prompts, settings, use_tqdm=False)
        return [Generated(list(output.outputs[0].token_ids)) for output in outputs]

    def _settings(self, request: Request) -> Any:
        from vllm import SamplingParams

        return SamplingParams(
            temperature=request.sampling.temperature,
            top_p=request.sampling.top_p,
            top_k=request.sampling.top_k,
            repetition_penalty=request.sampling.repetition_penalty,
            max_tokens=request.budget,
            seed=request.seed,
            stop_token_ids=self.stops,
            detokenize=False,
        )


@contextmanager
def opened(form: str, source: str, job: Mapping[str, Any]) -> Iterator[VllmBackend]:
    """An engine with the target's weights, which ends with the context.

    vLLM reads Hugging Face folders only, so a checkpoint or an adapter becomes one first, in the
    system's temporary folder.
    """
    from transformers import AutoConfig, GenerationConfig
    from vllm import LLM
    from vllm.distributed import cleanup_dist_env_and_memory

    with tempfile.TemporaryDirectory(prefix="grubrics-vllm-") as folder:
        if form == "checkpoint" or is_adapter(source):
            source = _write_model(form, source, job, Path(folder))
        tokenizer = load_tokenizer(source, job)
        try:
            configured = GenerationConfig.from_pretrained(source)
        except OSError:  # Not every model has one.
            configured = None
        llm = LLM(
            model=source,
            dtype=job["dtype"],
            seed=job["seed"],
            max_model_len=job["max_prompt_tokens"] + job["max_answer_tokens"],
            **job["vllm"],
        )
        try:
            model_type = str(AutoConfig.from_pretrained(source).model_type)
            yield VllmBackend(llm, tokenizer, stop_tokens(tokenizer, configured), model_type)
        finally:
            del llm
            cleanup_dist_env_and_memory()


def _write_model(form: str, source: str, job: Mapping[str, Any], folder: Path) -> str:
    """The target as a Hugging Face folder. The weights stay on the CPU: the GPU is vLLM's."""
    model, tokenizer = load_target(form, source, {**job, "device": "cpu"})
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)
