"""Read the config values that decide how much memory training needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from engine.checks.estimate.activations import LogitsUse, Precision
from engine.checks.estimate.model_shape import Adapters, ModelShape
from engine.config.load import Config
from engine.config.places import lora_rank
from engine.config.schedule import TEMPERATURE, find_schedule
from engine.run.kinds import ByKind

_ACTOR = "actor_rollout_ref.actor"
_ROLLOUT = "actor_rollout_ref.rollout"
_REF = "actor_rollout_ref.ref"
_MODEL = "actor_rollout_ref.model"

_WIDTHS = {"fp32": 4, "float32": 4, "bf16": 2, "bfloat16": 2, "fp16": 2, "float16": 2, "half": 2}


@dataclass(frozen=True)
class Rollout:
    """The engine that generates. ``replica``: GPUs of one copy; ``width``: bytes of a weight;
    ``share``: of the GPU, vLLM's; ``sequences``: a step's rollouts for one copy."""

    name: str
    width: int
    replica: int
    share: float
    sequences: int
    longest: int
    """Tokens of the longest sample."""
    model_len: int
    """Tokens that vLLM promises to hold of one sample; its cache must have room for them."""
    batched_tokens: int
    bucket: int
    """Bytes in which full weights are handed over."""
    graphs: bool
    sleeps: bool


@dataclass(frozen=True)
class Training:
    """Sizes of one training process, that is of one GPU.

    ``stored`` and ``compute`` are bytes of a weight: as kept in the shards (what the optimizer
    updates) and as used in a forward pass. Token counts are upper bounds of one micro batch on
    one GPU: as if every sample were as long as is allowed.
    """

    on_gpu: bool
    gpus: int
    gpus_per_node: int
    shards: int
    stored: int
    compute: int
    rank: int
    adapters: tuple[Adapters, ...]
    trained: int
    weights: int
    update_tokens: int
    score_tokens: int
    checkpointing: bool
    update_logits: LogitsUse
    score_logits: LogitsUse
    param_offload: bool
    optimizer_offload: bool
    reference: int
    """Bytes of a weight of the reference model's own copy; 0 where it has none."""
    copies_shards: bool
    """Whether a layer's weights are gathered or converted into a copy before they are used."""
    rollout: Rollout | None

    @property
    def precision(self) -> Precision:
        return Precision(self.compute, self.rank)


def training_of(config: Config, shape: ModelShape) -> Training:
    """``config`` is the effective one: verl's configuration with what the device implies."""
    return _TRAINING[config.kind](config, shape)


def has_flash() -> bool:
    """Whether flash-attn is installed: verl then takes its cross-entropy."""
    return find_spec("flash_attn") is not None


def _grpo(config: Config, shape: ModelShape) -> Training:
    fsdp = f"{_ACTOR}.fsdp_config"
    per_node = int(config.get("trainer.n_gpus_per_node"))
    gpus = per_node * int(config.get("trainer.nnodes"))
    size = int(config.get(f"{fsdp}.fsdp_size", -1))
    shards = size if 0 < size < gpus else gpus
    stored = _width(config.get(f"{fsdp}.model_dtype"), 4)
    compute = _width(config.get(f"{fsdp}.mixed_precision.param_dtype"), 2)
    rank = lora_rank(config)
    adapters = _adapters(config, shape, _MODEL)
    entropy = bool(config.get(f"{_ACTOR}.calculate_entropy"))
    entropy = entropy or config.get(f"{_ACTOR}.entropy_coeff") != 0
    return Training(
        on_gpu=config.get("grubrics.device") != "cpu",
        gpus=gpus,
        gpus_per_node=per_node,
        shards=shards,
        stored=stored,
        compute=compute,
        rank=rank,
        adapters=adapters,
        trained=_trained(shape, rank, adapters),
        weights=shape.weights,
        update_tokens=_tokens(config, f"{_ACTOR}.ppo", "use_dynamic_bsz"),
        score_tokens=_tokens(config, f"{_ROLLOUT}.log_prob", "log_prob_use_dynamic_bsz"),
        checkpointing=bool(config.get(f"{_MODEL}.enable_gradient_checkpointing")),
        update_logits=_logits(config, shape, compute, backward=True, entropy=entropy),
        score_logits=_logits(config, shape, compute, backward=False, entropy=True),
        param_offload=bool(config.get(f"{fsdp}.param_offload")),
        optimizer_offload=bool(config.get(f"{fsdp}.optimizer_offload")),
        reference=_reference(config, rank),
        copies_shards=shards > 1 or stored != compute or config.get(f"{_ACTOR}.strategy") != "fsdp",
        rollout=_rollout(config, shape),
    )


def _sft(config: Config, shape: ModelShape) -> Training:
    """verl's SFT trainer keeps fp32 weights and computes in ``training.bf16``."""
    gpus = int(config.get("training.n_gpus"))
    rank, compute = lora_rank(config), 2 if config.get("training.bf16") else 4
    batch, capped = int(config.get("training.per_device_train_batch_size")), shape.soft_capped
    adapters = _adapters(config, shape, "lora")
    return Training(
        on_gpu=config.get("grubrics.device") != "cpu",
        gpus=gpus,
        gpus_per_node=gpus,
        shards=gpus,
        stored=4,
        compute=compute,
        rank=rank,
        adapters=adapters,
        trained=_trained(shape, rank, adapters),
        weights=shape.weights,
        update_tokens=batch * int(config.get("data.max_seq_length")),
        score_tokens=0,
        checkpointing=bool(config.get("training.gradient_checkpointing")),
        update_logits=LogitsUse(
            compute, backward=True, entropy=False, flash=has_flash(), soft_capped=capped
        ),
        score_logits=LogitsUse(compute, backward=False, entropy=False),
        param_offload=False,
        optimizer_offload=False,
        reference=0,
        copies_shards=gpus > 1 or compute != 4,
        rollout=None,
    )


def _adapters(config: Config, shape: ModelShape, section: str) -> tuple[Adapters, ...]:
    rank, targets = lora_rank(config), config.get(f"{section}.target_modules")
    excluded = config.get(f"{section}.exclude_modules")
    return tuple(shape.lora_parts(rank, targets or "all-linear", excluded or "")) if rank else ()


def _trained(shape: ModelShape, rank: int, adapters: tuple[Adapters, ...]) -> int:
    return sum(part.weights for part in adapters) if rank else shape.weights


def _tokens(config: Config, prefix: str, dynamic: str) -> int:
    """Tokens of a micro batch on one GPU: its budget, or samples x longest sample."""
    section = prefix.rpartition(".")[0]
    if config.get(f"{section}.{dynamic}"):
        return int(config.get(f"{prefix}_max_token_len_per_gpu"))
    parallel = int(config.get(f"{_ACTOR}.ulysses_sequence_parallel_size"))
    return int(config.get(f"{prefix}_micro_batch_size_per_gpu") or 0) * _longest(config) // parallel


def _longest(config: Config) -> int:
    return int(config.get("data.max_prompt_length")) + int(config.get("data.max_response_length"))


def _logits(
    config: Config, shape: ModelShape, compute: int, *, backward: bool, entropy: bool
) -> LogitsUse:
    """Without padding removed verl does not use the compiled entropy."""
    unpadded = bool(config.get(f"{_MODEL}.use_remove_padding"))
    return LogitsUse(
        compute=compute,
        backward=backward,
        entropy=entropy,
        fused_entropy=unpadded and bool(config.get(f"{_ACTOR}.fsdp_config.use_torch_compile")),
        scaled=find_schedule(config.get, TEMPERATURE) is not None
        or config.get(f"{_ROLLOUT}.temperature") != 1,
        flash=has_flash(),
        soft_capped=shape.soft_capped,
    )


def _reference(config: Config, rank: int) -> int:
    """With LoRA the reference is the same model with its adapters switched off."""
    used = config.get(f"{_ACTOR}.use_kl_loss") or config.get("algorithm.use_kl_in_reward")
    return _width(config.get(f"{_REF}.fsdp_config.model_dtype"), 4) if used and not rank else 0


def _rollout(config: Config, shape: ModelShape) -> Rollout:
    name = str(config.get(f"{_ROLLOUT}.name"))
    parts = ("tensor_model_parallel_size", "pipeline_model_parallel_size")
    replica = 1
    for part in parts:
        replica *= int(config.get(f"{_ROLLOUT}.{part}") or 1)
    rollouts = int(config.get("data.train_batch_size")) * int(config.get(f"{_ROLLOUT}.n"))
    cards = int(config.get("trainer.n_gpus_per_node")) * int(config.get("trainer.nnodes"))
    return Rollout(
        name=name,
        width=_width(config.get(f"{_ROLLOUT}.dtype"), 2),
        replica=replica,
        share=float(config.get(f"{_ROLLOUT}.gpu_memory_utilization")),
        sequences=-(-rollouts * replica // cards),
        longest=_longest(config),
        model_len=int(config.get(f"{_ROLLOUT}.max_model_len") or shape.positions),
        batched_tokens=int(config.get(f"{_ROLLOUT}.max_num_batched_tokens")),
        bucket=int(config.get(f"{_ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes"))
        << 20,
        graphs=not config.get(f"{_ROLLOUT}.enforce_eager"),
        sleeps=bool(config.get(f"{_ROLLOUT}.free_cache_engine")),
    )


def _width(name: Any, default: int) -> int:
    return _WIDTHS.get(str(name).lower(), default)


_TRAINING: ByKind[Callable[[Config, ModelShape], Training]] = ByKind(
    "memory estimate", grpo=_grpo, sft=_sft
)
