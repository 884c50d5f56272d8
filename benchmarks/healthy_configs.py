"""The configs of ``healthy_runs.py``: a fixed list of different ones, and ranges to draw from.

All of them train soundly in the tiny demo, so that whatever the doctor, the canary or
``config --unused`` says of them is a false alarm.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from engine.config.compose import ACTOR, REF, ROLLOUT

SFT_SHARE = 0.4
MODEL = "actor_rollout_ref.model"
REWARD_FILE = "rewards.py"
REWARD = '''"""Rewards rubrics of three or four items that name different things."""


def compute_score(data_source, solution_str, ground_truth, extra_info, bonus=0.0):
    items = [line.strip() for line in solution_str.splitlines() if line.strip()]
    named = len({item.lower() for item in items}) / max(1, len(items))
    return {"score": named - 0.1 * abs(len(items) - 4) + bonus, "items": len(items)}
'''


@dataclass(frozen=True)
class Plan:
    """A healthy run to be: a config and what is changed of it.

    ``has_canary`` says that the run logs the difference between engine and trainer.
    """

    name: str
    config: str
    overrides: tuple[str, ...]
    has_canary: bool


def distinct_plans() -> list[Plan]:
    """One short run of each config, with a seed of its own."""
    sft = [
        Plan(f"sft-{name}", config, (*_sft_basics(f"sft-{name}", number), *values), False)
        for number, (name, (config, *values)) in enumerate(_SFT.items())
    ]
    grpo = [
        Plan(f"grpo-{name}", config, (*_grpo_basics(f"grpo-{name}", number), *values), True)
        for number, (name, (config, *values)) in enumerate(_GRPO.items())
    ]
    return [*sft, *grpo]


def _sft_basics(name: str, seed: int) -> Iterator[str]:
    yield f"training.seed={seed}"
    yield f"training.output_dir=checkpoints/{name}"


def _grpo_basics(name: str, seed: int) -> Iterator[str]:
    yield f"grubrics.seed={seed}"
    yield f"data.seed={seed}"
    yield f"trainer.default_local_dir=checkpoints/{name}"
    yield "trainer.total_training_steps=8"
    yield "trainer.val_before_train=false"
    yield "trainer.test_freq=-1"
    yield "trainer.save_freq=-1"


def _group(rollouts: int, prompts: int = 4) -> tuple[str, ...]:
    """``prompts`` prompts x ``rollouts`` rollouts in one micro-batch."""
    whole = rollouts * prompts
    return (
        f"{ROLLOUT}.n={rollouts}",
        f"data.train_batch_size={prompts}",
        f"{ACTOR}.ppo_mini_batch_size={prompts}",
        f"{ACTOR}.ppo_micro_batch_size_per_gpu={whole}",
        f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu={whole}",
    )


_SFT_STEPS = "training.max_steps=30"
_SFT: dict[str, tuple[str, ...]] = {
    "full": ("sft_tiny", _SFT_STEPS),
    "lora": ("sft_tiny", _SFT_STEPS, "lora.r=8", "lora.alpha=16"),
    "bf16": ("sft_tiny", _SFT_STEPS, "training.bf16=true"),
    "constant": ("sft_tiny", _SFT_STEPS, "training.lr_scheduler_type=constant"),
    "accumulate": ("sft_tiny", _SFT_STEPS, "training.gradient_accumulation_steps=2"),
    "epoch": (
        "sft_tiny",
        "training.max_steps=-1",
        "training.num_train_epochs=1",
        "training.per_device_train_batch_size=16",
    ),
    "attention-adapters": (
        "sft_tiny",
        "training.max_steps=20",
        "lora.r=4",
        "lora.target_modules=[q_proj,v_proj]",
        "training.weight_decay=0",
    ),
    "checkpointing": ("sft_tiny", "training.max_steps=20", "training.gradient_checkpointing=true"),
    "no-warm-up": ("sft_tiny", "training.max_steps=20", "training.warmup_ratio=0"),
    "small-batches": (
        "sft_tiny",
        "training.max_steps=20",
        "training.per_device_train_batch_size=2",
        "training.learning_rate=1e-3",
        "training.max_grad_norm=0.5",
    ),
    "saves": ("sft_tiny", "training.max_steps=20", "training.save_steps=10"),
    "two-ranks": ("sft_tiny", "training.max_steps=20", "training.n_gpus=2"),
    "production": (
        "sft_healthbench",
        "grubrics.device=cpu",
        "model.path=data/tiny/model",
        "data.train_file=data/tiny/sft/train.jsonl",
        "data.max_seq_length=1024",
        "training.max_steps=20",
        "training.learning_rate=1e-3",
        "logging.report_to=[console,file]",
    ),
}

_LORA = (f"{MODEL}.lora_rank=8", f"{MODEL}.lora_alpha=16", f"{ACTOR}.optim.lr=1e-3")
_OVERLONG = (
    "reward.reward_manager.name=dapo",
    "reward.reward_kwargs.overlong_buffer_cfg.enable=true",
    "reward.reward_kwargs.overlong_buffer_cfg.len=16",
    "reward.reward_kwargs.overlong_buffer_cfg.penalty_factor=0.5",
    "reward.reward_kwargs.overlong_buffer_cfg.log=true",
    "reward.reward_kwargs.max_resp_len=64",
)
_GRPO: dict[str, tuple[str, ...]] = {
    "full": ("grpo_tiny",),
    "validated": (
        "grpo_tiny",
        "trainer.val_before_train=true",
        "trainer.test_freq=4",
        "trainer.save_freq=4",
        f"{ROLLOUT}.val_kwargs.do_sample=true",
        f"{ROLLOUT}.val_kwargs.temperature=0.7",
        f"{ROLLOUT}.val_kwargs.top_p=0.9",
    ),
    "lora-adapter": ("grpo_tiny", *_LORA),
    "lora-merged": ("grpo_tiny", *_LORA, f"{MODEL}.lora.merge=true"),
    "bf16": ("grpo_tiny", f"{ROLLOUT}.dtype=bfloat16"),
    "filter-groups": (
        "grpo_tiny",
        "algorithm.filter_groups.enable=true",
        "algorithm.filter_groups.metric=reward",
    ),
    "dapo": (
        "grpo_tiny",
        *_OVERLONG,
        f"{ACTOR}.clip_ratio_high=0.28",
        f"{ACTOR}.loss_agg_mode=token-mean",
        "algorithm.filter_groups.enable=true",
    ),
    "own-reward": (
        "own_reward",
        f"reward.custom_reward_function.path={REWARD_FILE}",
        "+reward.custom_reward_function.reward_kwargs.bonus=0.1",
    ),
    "contrastive": (
        "grpo_tiny",
        "reward_config.use_contrastive=true",
        "data.train_files=data/contrastive/train.parquet",
        "data.val_files=data/contrastive/val.parquet",
        "data.max_prompt_length=384",
    ),
    "debug": (
        "verl_grpo_debug",
        "grubrics.device=cpu",
        f"{MODEL}.path=checkpoints/grubrics-transfer/sft-tiny/final",
        "data.train_files=data/contrastive/train.parquet",
        "data.val_files=data/contrastive/val.parquet",
        "data.max_prompt_length=384",
        "data.max_response_length=64",
        "judge.provider=offline",
    ),
    "top-p": ("grpo_tiny", f"{ROLLOUT}.top_p=0.9"),
    "lora-adapter-bf16": ("grpo_tiny", *_LORA, f"{ROLLOUT}.dtype=bfloat16"),
    "bf16-top-p": ("grpo_tiny", f"{ROLLOUT}.dtype=bfloat16", f"{ROLLOUT}.top_p=0.95"),
    "pairs": ("grpo_tiny", *_group(2, 8)),
    "kl-loss": ("grpo_tiny", f"{ACTOR}.use_kl_loss=true", f"{ACTOR}.kl_loss_coef=0.001"),
    "two-updates": ("grpo_tiny", "data.train_batch_size=8", f"{ACTOR}.ppo_epochs=2"),
    "large-groups": ("grpo_tiny", *_group(16, 2)),
    "top-k": ("grpo_tiny", f"{ROLLOUT}.top_k=20"),
    "cool": ("grpo_tiny", f"{ROLLOUT}.temperature=0.8"),
    "refilled": ("grpo_tiny", "trainer.v1.sampler.sync_refill_failed_groups=true"),
    "kl-reward": (
        "grpo_tiny",
        "algorithm.use_kl_in_reward=true",
        "algorithm.kl_ctrl.kl_coef=0.001",
    ),
    "dr-grpo": (
        "grpo_tiny",
        "algorithm.norm_adv_by_std_in_grpo=false",
        f"{ACTOR}.loss_agg_mode=seq-mean-token-sum-norm",
    ),
    "rloo": ("grpo_tiny", "algorithm.adv_estimator=rloo"),
    "gspo": (
        "grpo_tiny",
        f"{ACTOR}.policy_loss.loss_mode=gspo",
        f"{ACTOR}.loss_agg_mode=seq-mean-token-mean",
        f"{ACTOR}.clip_ratio_low=3e-4",
        f"{ACTOR}.clip_ratio_high=4e-4",
    ),
    "entropy-cosine": (
        "grpo_tiny",
        f"{ACTOR}.entropy_coeff=0.001",
        f"{ACTOR}.optim.lr_scheduler_type=cosine",
        f"{ACTOR}.optim.min_lr_ratio=0.1",
    ),
    "dynamic-batches": (
        "grpo_tiny",
        f"{ACTOR}.use_dynamic_bsz=true",
        f"{ACTOR}.ppo_max_token_len_per_gpu=4096",
    ),
}


def drawn_plan(number: int, seed: int) -> Plan:
    """A run with settings drawn from ranges in which the tiny demo trains soundly."""
    draw = random.Random(f"{seed}/{number}")
    if draw.random() < SFT_SHARE:
        return Plan(f"sft-{number:03}", "sft_tiny", tuple(_drawn_sft(draw, number)), False)
    return Plan(f"grpo-{number:03}", "grpo_tiny", tuple(_drawn_grpo(draw, number)), True)


def _drawn_sft(draw: random.Random, number: int) -> Iterator[str]:
    yield from _sft_basics(f"sft-{number:03}", number)
    yield f"training.max_steps={draw.choice([40, 80, 150, 300, 400])}"
    yield f"training.learning_rate={_between(draw, 5e-4, 5e-3):.2g}"
    yield f"training.per_device_train_batch_size={draw.choice([2, 4, 8, 16])}"
    yield f"training.gradient_accumulation_steps={draw.choice([1, 1, 2])}"
    yield f"training.lr_scheduler_type={draw.choice(['cosine', 'constant'])}"
    yield f"training.warmup_ratio={draw.choice([0.03, 0.1, 0.2])}"
    yield f"training.save_steps={draw.choice([-1, 40])}"


def _drawn_grpo(draw: random.Random, number: int) -> Iterator[str]:
    steps = draw.choice([8, 12, 16, 24])
    yield f"grubrics.seed={number}"
    yield f"data.seed={number}"
    yield f"trainer.default_local_dir=checkpoints/grpo-{number:03}"
    yield f"trainer.total_training_steps={steps}"
    yield f"trainer.test_freq={draw.choice([-1, 5, 10])}"
    yield f"trainer.save_freq={draw.choice([-1, 5, 10])}"
    yield f"{ACTOR}.optim.lr={_between(draw, 2e-5, 3e-4):.2g}"
    yield f"{ACTOR}.optim.lr_warmup_steps={draw.choice([0, 2, 5])}"
    yield f"{ROLLOUT}.temperature={draw.choice([0.8, 1.0, 1.0, 1.2])}"
    yield f"{ROLLOUT}.n={draw.choice([4, 8, 8])}"
    yield f"data.train_batch_size={(batch := draw.choice([4, 8]))}"
    yield f"{ACTOR}.ppo_mini_batch_size={draw.choice([4, batch])}"
    yield f"{ACTOR}.ppo_micro_batch_size_per_gpu=16"
    yield f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu=16"
    yield f"{REF}.log_prob_micro_batch_size_per_gpu=16"
    yield f"data.max_response_length={draw.choice([64, 80, 96])}"
    yield f"{ACTOR}.entropy_coeff={draw.choice([0, 0, 0.001])}"
    if draw.random() < 0.4:
        yield f"{ACTOR}.use_kl_loss=true"
        yield f"{ACTOR}.kl_loss_coef={draw.choice([0.001, 0.01])}"


def _between(draw: random.Random, low: float, high: float) -> float:
    """Evenly spread over the orders of magnitude."""
    return math.exp(draw.uniform(math.log(low), math.log(high)))
