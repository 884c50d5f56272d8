"""Measured peaks of GPU memory beside the estimate, with random weights of real architectures.

One training process without FSDP and without a rollout engine: forward, log-probabilities and
entropy as verl 0.9.1 computes them, backward, AdamW. That is the ``update`` and the ``optimizer
step`` of ``grubrics-tui estimate`` on one GPU; contexts and CUDA graphs are not torch's and are
left out on both sides. Nothing is downloaded.

    python benchmarks/memory.py [--only NAME]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import Any

from engine.checks.estimate.activations import LogitsUse
from engine.checks.estimate.memory import GIB, Breakdown, memory
from engine.checks.estimate.model_shape import ModelShape, known, known_configs
from engine.checks.estimate.training import Training, has_flash


@dataclass(frozen=True)
class Setting:
    """One row of the table. ``width`` is bytes of a weight, as stored and as computed with."""

    model: str
    rank: int
    samples: int
    length: int
    checkpointing: bool = True
    entropy: bool = False
    width: int = 2

    @property
    def name(self) -> str:
        kind = f"LoRA {self.rank}" if self.rank else "every weight"
        how = "checkpointing" if self.checkpointing else "all activations"
        entropy = ", entropy" if self.entropy else ""
        return f"{self.model}, {kind}, {self.samples} x {self.length}, {how}{entropy}"


SETTINGS = (
    Setting("qwen2.5-0.5b", 0, 4, 1024),
    Setting("qwen2.5-0.5b", 16, 2, 1280, checkpointing=False),
    Setting("qwen2.5-1.5b", 0, 2, 2048),
    Setting("qwen3-1.7b", 64, 4, 2048, checkpointing=False),
    Setting("qwen3-4b", 64, 4, 2560, entropy=True),
    Setting("llama-3.2-3b", 32, 4, 1536, entropy=True),
    Setting("qwen3-8b", 64, 4, 2560),
    Setting("qwen3-8b", 64, 2, 2560, entropy=True),
)


def estimated(setting: Setting, shape: ModelShape) -> list[Breakdown]:
    """The phases of the estimate, without what is not torch's."""
    logits = LogitsUse(setting.width, backward=True, entropy=setting.entropy, flash=has_flash())
    adapters = shape.lora_parts(setting.rank)
    trained = sum(part.weights for part in adapters) if setting.rank else shape.weights
    training = Training(
        on_gpu=False, gpus=1, gpus_per_node=1, shards=1, stored=setting.width,
        compute=setting.width, rank=setting.rank, adapters=(), trained=trained,
        weights=shape.weights,
        update_tokens=setting.samples * setting.length, score_tokens=0,
        checkpointing=setting.checkpointing, update_logits=logits,
        score_logits=replace(logits, backward=False), param_offload=False,
        optimizer_offload=False, reference=0, copies_shards=False, rollout=None,
    )  # fmt: skip
    return list(memory(training, shape, None).phases)


def measured(setting: Setting, device: str) -> int:
    """torch's peak over three steps; the first has no moments yet."""
    import torch

    model = _built(setting, device)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-6)
    vocabulary = int(known_configs()[setting.model]["vocab_size"])
    for _ in range(3):
        _step(model, optimizer, setting, vocabulary, device)
    return int(torch.cuda.max_memory_allocated()) if device == "cuda" else 0


def _built(setting: Setting, device: str) -> Any:
    import torch
    import transformers

    config = {
        key: value for key, value in known_configs()[setting.model].items() if value is not None
    }
    family = {"qwen2": "Qwen2", "qwen3": "Qwen3", "llama": "Llama"}[config.pop("model_type")]
    loaded = getattr(transformers, f"{family}Config")(**config, attn_implementation="sdpa")
    dtype = torch.bfloat16 if setting.width == 2 else torch.float32
    torch.set_default_dtype(dtype)
    with torch.device(device):
        model = getattr(transformers, f"{family}ForCausalLM")(loaded)
    torch.set_default_dtype(torch.float32)
    if setting.checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if setting.rank:
        import peft

        model.enable_input_require_grads()
        chosen = peft.LoraConfig(task_type="CAUSAL_LM", r=setting.rank, target_modules="all-linear")
        model = peft.get_peft_model(model, chosen).to(dtype)
    return model.train()


def _step(model: Any, optimizer: Any, setting: Setting, vocabulary: int, device: str) -> None:
    import torch

    shape = (setting.samples, setting.length)
    tokens = torch.randint(vocabulary, shape, device=device)
    positions = torch.arange(setting.length, device=device).expand(shape)
    with torch.autocast(device, dtype=torch.bfloat16, enabled=setting.width == 2):
        logits = model(input_ids=tokens, position_ids=positions, use_cache=False).logits
        _loss(logits.reshape(-1, vocabulary), tokens.roll(-1).reshape(-1), setting).backward()
    optimizer.step()
    optimizer.zero_grad()


def _loss(logits: Any, labels: Any, setting: Setting) -> Any:
    """verl's own functions where verl is installed: they decide about the copies."""
    import torch
    from verl.utils import torch_functional as verl

    loss = -verl.logprobs_from_logits(logits, labels, inplace_backward=not setting.entropy).mean()
    if setting.entropy:
        loss = loss - 0.01 * verl.entropy_from_logits(logits).mean()
    return loss.to(torch.float32)


def main() -> None:
    import gc

    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="settings whose name contains this")
    only = parser.parse_args().only
    device = "cuda" if torch.cuda.is_available() else "cpu"
    print(f"{torch.cuda.get_device_name() if device == 'cuda' else 'no GPU: nothing is measured'}")
    print("| setting | estimated GiB | measured GiB | difference |\n|---|---|---|---|")
    for setting in (one for one in SETTINGS if only in one.name):
        shape = known(setting.model)
        assert shape is not None
        peak = max(phase.total for phase in estimated(setting, shape))
        told = "–"
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
            told_bytes = measured(setting, device)
            told = f"{told_bytes / GIB:.2f} | {peak / told_bytes - 1:+.1%}"
            gc.collect()
            torch.cuda.empty_cache()
        print(f"| {setting.name} | {peak / GIB:.2f} | {told} |", flush=True)


if __name__ == "__main__":
    main()
