"""Scripts in the style of verl's, for several tests."""

from __future__ import annotations

from pathlib import Path

TINY_GRPO = r"""#!/usr/bin/env bash
# GRPO of a small model on sums.
set -xeuo pipefail

export WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567
MODEL=${MODEL:-model}
DATA=${DATA_DIR:-.}
prompts=4
ALGORITHM=(
    algorithm.adv_estimator=grpo # advantages of a group
    algorithm.use_kl_in_reward=False
)

python3 -m verl.trainer.main_ppo "${ALGORITHM[@]}" \
    data.train_files="['$DATA/train.parquet']" \
    data.val_files=$DATA/val.parquet \
    data.train_batch_size=$prompts \
    data.max_prompt_length=64 \
    data.max_response_length=8 \
    data.filter_overlong_prompts=True \
    actor_rollout_ref.model.path=$MODEL \
    actor_rollout_ref.model.use_remove_padding=True \
    actor_rollout_ref.actor.optim.lr=1e-4 \
    actor_rollout_ref.actor.ppo_mini_batch_size=$prompts \
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=$((prompts * 2)) \
    actor_rollout_ref.actor.grad_clip=0.5 \
    actor_rollout_ref.actor.fsdp_config.param_offload=True \
    actor_rollout_ref.rollout.name=vllm \
    actor_rollout_ref.rollout.tensor_model_parallel_size=2 \
    actor_rollout_ref.rollout.n=2 \
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8 \
    actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=8 \
    trainer.critic_warmup=0 \
    trainer.logger='["console"]' \
    trainer.project_name='sums' \
    trainer.experiment_name='two-steps' \
    trainer.n_gpus_per_node=8 \
    trainer.nnodes=1 \
    trainer.val_before_train=False \
    trainer.test_freq=-1 \
    trainer.save_freq=-1 \
    trainer.total_training_steps=2 "$@" 2>&1 | tee train.log
"""

FOR_GPUS = r"""#!/usr/bin/env bash
# The sizes, variables and loggers of a script for eight GPUs.
set -x
export VLLM_USE_V1=1
export TOKENIZERS_PARALLELISM=true
NCCL_DEBUG=WARN python3 -m verl.trainer.main_ppo \
    algorithm.adv_estimator=grpo \
    data.train_files=train.parquet \
    data.val_files=val.parquet \
    data.train_batch_size=1024 \
    data.max_prompt_length=512 \
    data.max_response_length=1024 \
    data.filter_overlong_prompts=True \
    data.truncation='error' \
    actor_rollout_ref.model.path=Qwen/Qwen2-7B-Instruct \
    actor_rollout_ref.model.use_remove_padding=True \
    actor_rollout_ref.model.enable_gradient_checkpointing=True \
    actor_rollout_ref.actor.optim.lr=1e-6 \
    actor_rollout_ref.actor.ppo_mini_batch_size=256 \
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=40 \
    actor_rollout_ref.actor.use_kl_loss=True \
    actor_rollout_ref.actor.kl_loss_coef=0.001 \
    actor_rollout_ref.actor.ulysses_sequence_parallel_size=2 \
    actor_rollout_ref.actor.fsdp_config.optimizer_offload=False \
    actor_rollout_ref.actor.fsdp_config.fsdp_size=8 \
    actor_rollout_ref.actor.fsdp_config.model_dtype=bfloat16 \
    actor_rollout_ref.rollout.name=vllm \
    actor_rollout_ref.rollout.tensor_model_parallel_size=2 \
    actor_rollout_ref.rollout.data_parallel_size=2 \
    actor_rollout_ref.rollout.gpu_memory_utilization=0.5 \
    actor_rollout_ref.rollout.max_num_seqs=256 \
    actor_rollout_ref.rollout.enforce_eager=False \
    actor_rollout_ref.rollout.free_cache_engine=True \
    +actor_rollout_ref.rollout.engine_kwargs.vllm.swap_space=4 \
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=40 \
    actor_rollout_ref.rollout.n=5 \
    actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=40 \
    actor_rollout_ref.ref.fsdp_config.param_offload=True \
    +ray_kwargs.ray_init.runtime_env.env_vars.VLLM_LOGGING_LEVEL=WARN \
    trainer.logger='["console","wandb"]' \
    trainer.project_name=verl_grpo_example_gsm8k \
    trainer.experiment_name=qwen2_7b_function_rm \
    trainer.n_gpus_per_node=8 \
    trainer.nnodes=1 \
    trainer.save_freq=20 \
    trainer.test_freq=5 \
    trainer.total_epochs=15 "$@"
"""

SFT = r"""set -x
nproc_per_node=$1
save_path=$2
shift 2
torchrun --standalone --nnodes=1 --nproc_per_node=$nproc_per_node \
    -m verl.trainer.fsdp_sft_trainer \
    data.train_files=train.parquet \
    data.val_files=val.parquet \
    data.micro_batch_size_per_gpu=4 \
    data.train_batch_size=64 \
    model.partial_pretrain=Qwen/Qwen2.5-0.5B-Instruct \
    trainer.default_local_dir=$save_path \
    trainer.experiment_name=sums-sft \
    trainer.logger=['console','wandb'] \
    use_remove_padding=true $@
"""

AFLOW = """base_model: /models/qwen
device_mapping: [0]
bf16: true
use_lora: true
lora_rank: 128
lora_dropout: 0.05
lora_target_modules: q_proj,k_proj
max_steps: 500
rollout_batch_size: 4
num_return_sequences_in_group: 4
learning_rate: 2.0e-5
gradient_accumulation_steps: 8
clip_range: 0.2
temperature_schedule: {enabled: true, initial: 0.5, final: 0.15, warmup_steps: 150}
generation_config: {temperature: 0.2, max_tokens: 8192}
train_dataset: data/mixed/train_mixed.jsonl
test_dataset: data/mixed/test_mixed.jsonl
output_dir: checkpoints/mixed
checkpointing:
  eval_every: 0
wandb: {enabled: true, project: aflow, run_name: first}
"""


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def call(*words: str, before: str = "") -> str:
    """A script that calls ``main_ppo`` for GRPO with further words."""
    command = ["python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo", *words]
    return f"{before}\n{' '.join(command)}\n"
