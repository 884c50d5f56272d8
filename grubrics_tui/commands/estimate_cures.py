"""The keys of a recipe that lower the peak of a phase, as the formulas of the estimate have it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.recipe.recipe import Recipe

_ACTOR = "actor_rollout_ref.actor"
_FSDP = f"{_ACTOR}.fsdp_config"
_ROLLOUT = "actor_rollout_ref.rollout"
_MODEL = "actor_rollout_ref.model"
_LENGTHS = ("data.max_prompt_length", "data.max_response_length")
_STATES = (f"{_FSDP}.model_dtype", f"{_FSDP}.optimizer_offload", f"{_MODEL}.lora_rank")

_GRPO = {
    "rollout": (
        f"{_ROLLOUT}.gpu_memory_utilization", f"{_FSDP}.param_offload", *_STATES[:2],
    ),
    "log-probabilities": (
        f"{_ROLLOUT}.log_prob_micro_batch_size_per_gpu", *_LENGTHS, *_STATES[:2],
    ),
    "update": (
        f"{_ACTOR}.ppo_micro_batch_size_per_gpu", *_LENGTHS,
        f"{_MODEL}.enable_gradient_checkpointing", *_STATES[::2],
    ),
    "optimiser step": (*_STATES[::2], "trainer.n_gpus_per_node"),
    "weights to the rollout": (*_STATES[:2], f"{_ROLLOUT}.dtype"),
}  # fmt: skip
_SFT = {
    "update": (
        "training.per_device_train_batch_size", "data.max_seq_length",
        "training.gradient_checkpointing", "lora.r", "training.n_gpus",
    ),
    "optimiser step": ("lora.r", "training.n_gpus"),
}  # fmt: skip
MORE_CACHE = (
    f"a higher {_ROLLOUT}.gpu_memory_utilization", f"a lower {_ROLLOUT}.max_model_len",
    f"{_ROLLOUT}.tensor_model_parallel_size",
)  # fmt: skip
"""What gives vLLM's cache room for more tokens, or asks it for fewer."""
_DYNAMIC = {
    f"{_ROLLOUT}.log_prob_micro_batch_size_per_gpu": (
        f"{_ROLLOUT}.log_prob_use_dynamic_bsz", f"{_ROLLOUT}.log_prob_max_token_len_per_gpu",
    ),
    f"{_ACTOR}.ppo_micro_batch_size_per_gpu": (
        f"{_ACTOR}.use_dynamic_bsz", f"{_ACTOR}.ppo_max_token_len_per_gpu",
    ),
}  # fmt: skip
"""The switch that sizes a micro batch in tokens in place of samples, and the number of tokens."""


def lowering(phase: str, recipe: Recipe) -> list[str]:
    """What matters most comes first; switches that are on already are left out."""
    known = (_GRPO if recipe.kind == "grpo" else _SFT)[phase]
    keys = [key for name in known for key in _micro_batch(name, recipe)]
    return [key for key in keys if recipe.get(key) is not True]


def _micro_batch(key: str, recipe: Recipe) -> list[str]:
    if key not in _DYNAMIC:
        return [key]
    switch, tokens = _DYNAMIC[key]
    return [tokens] if recipe.get(switch) else [key, switch]
