"""The table of values without effect: key pattern, condition, reason, and what to set instead.

Which keys are read was taken from the source of verl 0.9.1's V1 trainer with its FSDP engine, and
of our rollout server, sampler and reward manager; a test compares the table with the installed
verl. A key that no rule names counts as read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine.judge.providers import asks_server
from engine.recipe.compose import (
    FILTER,
    MANAGER,
    OVERLONG_BUFFER,
    OWN_SAMPLER,
    RECORDING_MANAGER,
    SAMPLER,
    SAMPLER_KWARGS,
    bounds_generations,
    replaces_groups,
)
from engine.recipe.recipe import Recipe

ACTOR = "actor_rollout_ref.actor"
ROLLOUT = "actor_rollout_ref.rollout"
MODEL = "actor_rollout_ref.model"

Applies = Callable[[Recipe], bool]


@dataclass(frozen=True)
class Rule:
    """The keys that ``pattern`` matches whole are not read where it ``applies``."""

    pattern: re.Pattern[str]
    reason: str
    instead: str | None
    applies: Applies


def _never(pattern: str, reason: str, instead: str | None = None) -> Rule:
    return Rule(re.compile(pattern), reason, instead, lambda _: True)


def _where(
    applies: Applies, pattern: str, reason: str, instead: str | None = None, but: str | None = None
) -> Rule:
    whole = f"(?!(?:{but})$){pattern}" if but else pattern
    return Rule(re.compile(whole), reason, instead, applies)


def _without(key: str, pattern: str) -> Rule:
    """Of a section that ``key`` switches on."""
    return _where(
        lambda recipe: not recipe.get(key), pattern, f"{key} is off", f"{key}=true", re.escape(key)
    )


def has_critic(recipe: Recipe) -> bool:
    """verl's ``need_critic``."""
    asked = recipe.get("critic.enable")
    return bool(asked) if asked is not None else recipe.get("algorithm.adv_estimator") == "gae"


def has_reference(recipe: Recipe) -> bool:
    """verl's ``need_reference_policy``."""
    in_loss = recipe.get(f"{ACTOR}.use_kl_loss")
    return bool(in_loss or recipe.get("algorithm.use_kl_in_reward"))


def validates(recipe: Recipe) -> bool:
    frequency = recipe.get("trainer.test_freq")
    every = isinstance(frequency, int) and frequency > 0
    return bool(every or recipe.get("trainer.val_before_train") or recipe.get("trainer.val_only"))


def _saves(recipe: Recipe) -> bool:
    every = recipe.get("trainer.save_freq")
    return isinstance(every, int) and every > 0


def _lora(recipe: Recipe) -> bool:
    return bool(recipe.get(f"{MODEL}.lora_rank") or recipe.get(f"{MODEL}.lora_adapter_path"))


def _is(key: str, *values: Any) -> Applies:
    return lambda recipe: recipe.get(key) in values


def _is_not(key: str, *values: Any) -> Applies:
    return lambda recipe: recipe.get(key) not in values


def _no_clip_fallback(recipe: Recipe) -> bool:
    """verl reads ``clip_ratio`` only for a side whose own limit is null."""
    return all(recipe.get(f"{ACTOR}.clip_ratio_{side}") is not None for side in ("low", "high"))


def _own_manager(recipe: Recipe) -> bool:
    return bool(recipe.get(f"{MANAGER}.name") == RECORDING_MANAGER)


def _shows_no_generations(recipe: Recipe) -> bool:
    loggers = recipe.get("trainer.logger")
    return not set([loggers] if isinstance(loggers, str) else loggers) & set(_TABLES)


def _calls_no_tools(recipe: Recipe) -> bool:
    """Whether the agent loop is verl's plain one; a loop of the recipe's own may read anything."""
    own = recipe.get(f"{ROLLOUT}.agent.agent_loop_config_path")
    return not own and recipe.get(f"{ROLLOUT}.agent.default_agent_loop") == "single_turn_agent"


def _guards_nothing(recipe: Recipe) -> bool:
    keys = ("guard.stop_on", "guard.command", "guard.webhook_variable")
    return not any(recipe.get(key) for key in keys)


_LOSS = f"{ACTOR}.policy_loss.loss_mode"
_A, _R, _M = (re.escape(name) for name in (ACTOR, ROLLOUT, MODEL))
_FSDP = r"actor_rollout_ref\.(?:actor|ref)\.fsdp_config"
_MODE = "trainer.v1.trainer_mode"
_ESTIMATOR = "algorithm.adv_estimator"

_GUARD = (
    _where(
        _guards_nothing,
        r"guard\.(?:stop_at_once|notify_on|every_s)",
        "nothing is guarded",
        "guard.stop_on=[critical]",
    ),
    _where(
        lambda recipe: not recipe.get("guard.stop_on"),
        r"guard\.stop_at_once",
        "no finding stops the run",
        "guard.stop_on=[critical]",
    ),
    _where(
        lambda recipe: not (recipe.get("guard.command") or recipe.get("guard.webhook_variable")),
        r"guard\.notify_on",
        "nobody is notified",
        "guard.command=[mail, me]",
    ),
)
_TABLES = ("wandb", "swanlab", "mlflow", "trackio", "clearml", "tensorboard", "vemlp_wandb")
"""The loggers to which verl sends generations of a validation."""

NEVER_READ = (
    _never("model_engine", "it chooses among verl's YAML files, which are read already"),
    _never(
        rf"{_A}\.grad_clip",
        "verl's engine clips by optim.clip_grad",
        f"{ACTOR}.optim.clip_grad",
    ),
    _never(rf"{_A}\.freeze_vision_tower", "no code of verl's FSDP engine reads it"),
    _never(
        r"actor_rollout_ref\.(?:actor|ref)\.use_torch_compile",
        "verl's engine reads it below fsdp_config",
        f"{ACTOR}.fsdp_config.use_torch_compile",
    ),
    _never(
        rf"{_A}\.(?:use_remove_padding|use_fused_kernels)",
        "the engine takes it from the model's section",
        f"{MODEL}.use_remove_padding or {MODEL}.use_fused_kernels",
    ),
    _never(rf"{_FSDP}\.strategy", "the engine takes the strategy of its role", f"{ACTOR}.strategy"),
    _never(
        rf"{_FSDP}\.dtype",
        "FSDP computes in mixed_precision.param_dtype",
        f"{ACTOR}.fsdp_config.mixed_precision.param_dtype",
    ),
    _never(
        r"(?:actor_rollout_ref\.actor|critic)\.optim\.total_training_steps",
        "verl sets it to the length of the run",
        "trainer.total_training_steps",
    ),
    _never(r"actor_rollout_ref\.nccl_timeout", "no code of verl's V1 trainer reads it"),
    _never(
        rf"{_R}\.do_sample",
        "training always samples",
        f"{ROLLOUT}.temperature, or for validation {ROLLOUT}.val_kwargs.do_sample",
    ),
    _never(rf"{_R}\.repetition_penalty", "verl's agent loop always sends 1.0"),
    _never(rf"{_R}\.over_sample_rate", "no code of verl's V1 trainer reads it"),
    _never(
        rf"{_R}\.multi_turn\.enable",
        "verl's V1 trainer runs the agent loop that is named",
        f"{ROLLOUT}.agent.default_agent_loop=tool_agent",
    ),
    _never(
        rf"{_R}\.multi_turn\.(?:num_repeat_rollouts|use_inference_chat_template"
        r"|tokenization_sanity_check_mode)",
        "no code of verl's V1 trainer reads it",
    ),
    _never(r"trainer\.v1\.sync\..+", "verl's sync mode has no settings"),
    _never(
        rf"{_FSDP}\.mixed_precision\.(?!(?:param|reduce|buffer)_dtype$).+",
        "FSDP's mixed precision has param_dtype, reduce_dtype and buffer_dtype",
    ),
    _never(r"trainer\.balance_batch", "verl's V1 trainer always balances its batches"),
    _never(r"trainer\.esi_redundant_time", "verl's V1 trainer never looks at it"),
    _never(
        rf"{_A}\.(?:use_prefix_grouper|calculate_sum_pi_squared)",
        "verl's V1 trainer never looks at it",
    ),
    _never(rf"{_A}\.rollout_n", "the trainer takes it from the rollout's section", f"{ROLLOUT}.n"),
    _never(
        rf"{_A}\.qat\..+",
        "verl's engine reads it below fsdp_config",
        f"{ACTOR}.fsdp_config.qat",
    ),
    _never(r".+\.checkpoint\.strict", "only Megatron's checkpoints read it"),
    _never(rf"{_R}\.agent\.custom_async_server\..+", "no code of verl 0.9.1 reads it"),
    _never(
        r"data\.(?:return_raw_input_ids|return_raw_chat|return_full_prompt|reward_fn_key"
        r"|tokenizer)",
        "verl's V1 trainer hands over raw conversations and never looks at it",
    ),
    _where(
        _is_not("data.truncation", "left"),
        r"data\.truncation",
        "verl's V1 agent loop always cuts the left of a long prompt",
        "data.filter_overlong_prompts=true",
    ),
    _never(r"algorithm\.(?:use_pf_ppo|pf_ppo\..+)", "verl's V1 trainer has no PF-PPO"),
    _never(r"trainer\.ray_wait_register_center_timeout", "verl's V1 trainer never looks at it"),
    _where(_is("trainer.use_v1", False), r"trainer\.use_v1", "this product runs verl's V1 trainer"),
    _where(
        _is("transfer_queue.enable", False),
        r"transfer_queue\.enable",
        "verl's V1 trainer cannot do without its TransferQueue",
    ),
    _never(
        r"skip\.(?:rollout|async_rollout)\..+",
        "verl's V1 trainer has one place to skip at",
        "skip.rollout_tq",
    ),
    _never(
        r"reward\.reward_manager\.module\.name",
        "verl loads reward.reward_manager.name from the module",
        "reward.reward_manager.name",
    ),
)
"""Keys without effect in every recipe."""

GRPO_RULES: tuple[Rule, ...] = (
    *NEVER_READ,
    _where(
        lambda recipe: not has_critic(recipe),
        r"critic\..+|trainer\.max_critic_ckpt_to_keep",
        "there is no critic without algorithm.adv_estimator=gae or critic.enable=true",
        but=r"critic\.enable",
    ),
    _where(
        lambda recipe: not has_reference(recipe),
        r"actor_rollout_ref\.ref\..+",
        "there is no reference model while both KL terms are off",
        f"{ACTOR}.use_kl_loss=true",
        but=r"actor_rollout_ref\.ref\.log_prob_.+",  # Sizes; they stand ready for one.
    ),
    _where(
        _is(f"{ACTOR}.use_kl_loss", False),
        rf"{_A}\.kl_loss_(?:coef|type)",
        "use_kl_loss is off",
        f"{ACTOR}.use_kl_loss=true",
    ),
    _where(
        _is("algorithm.use_kl_in_reward", False),
        r"algorithm\.(?:kl_penalty|kl_ctrl\..+)",
        "use_kl_in_reward is off",
        f"algorithm.use_kl_in_reward=true, or {ACTOR}.use_kl_loss=true with kl_loss_coef",
    ),
    _where(
        _is_not("algorithm.kl_ctrl.type", "adaptive"),
        r"algorithm\.kl_ctrl\.(?:horizon|target_kl)",
        "the coefficient is fixed",
        "algorithm.kl_ctrl.type=adaptive",
    ),
    _where(
        _no_clip_fallback,
        rf"{_A}\.clip_ratio",
        "clip_ratio_low and clip_ratio_high are what clips; it stands for one that is null",
        f"{ACTOR}.clip_ratio_low and {ACTOR}.clip_ratio_high",
    ),
    _where(
        _is_not(_LOSS, "vanilla", "dppo_tv", "dppo_kl"),
        rf"{_A}\.clip_ratio_c",
        "this loss_mode has no dual clip",
        f"{_LOSS}=vanilla",
    ),
    _where(
        _is(_LOSS, "sapo", "gpg", "dro"),
        rf"{_A}\.clip_ratio(?:_low|_high)?",
        "this loss_mode clips no ratio",
        f"{_LOSS}=vanilla",
    ),
    _where(
        _is_not(_LOSS, "sapo"), rf"{_A}\.tau_(?:pos|neg)", "only SAPO reads it", f"{_LOSS}=sapo"
    ),
    _where(
        _is_not(_LOSS, "clip_cov"),
        rf"{_A}\.policy_loss\.clip_cov_.+",
        "only the loss clip_cov reads it",
        f"{_LOSS}=clip_cov",
    ),
    _where(
        _is_not(_LOSS, "kl_cov"),
        rf"{_A}\.policy_loss\.(?:kl_cov_ratio|ppo_kl_coef)",
        "only the loss kl_cov reads it",
        f"{_LOSS}=kl_cov",
    ),
    _where(
        _is_not(_LOSS, "dro"),
        rf"{_A}\.policy_loss\.dro_beta",
        "only DRO reads it",
        f"{_LOSS}=dro",
    ),
    _where(_is(_LOSS, "sapo"), rf"{_A}\.loss_agg_mode", "SAPO always takes seq-mean-token-mean"),
    _where(
        _is_not(f"{ACTOR}.loss_agg_mode", "seq-mean-token-sum-norm"),
        rf"{_A}\.loss_scale_factor",
        "only seq-mean-token-sum-norm divides by it",
        f"{ACTOR}.loss_agg_mode=seq-mean-token-sum-norm",
    ),
    _where(
        _is_not(f"{ACTOR}.optim.lr_scheduler_type", "cosine"),
        rf"{_A}\.optim\.(?:min_lr_ratio|num_cycles)",
        "only the cosine schedule reads it",
        f"{ACTOR}.optim.lr_scheduler_type=cosine",
    ),
    _where(
        lambda recipe: (recipe.get(f"{ACTOR}.optim.lr_warmup_steps") or -1) >= 0,
        rf"{_A}\.optim\.lr_warmup_steps_ratio",
        "lr_warmup_steps is set and wins",
        f"{ACTOR}.optim.lr_warmup_steps=-1",
    ),
    _where(
        _is(f"{ACTOR}.use_dynamic_bsz", True),
        rf"{_A}\.ppo_micro_batch_size_per_gpu",
        "use_dynamic_bsz cuts micro batches by tokens",
        f"{ACTOR}.ppo_max_token_len_per_gpu",
    ),
    _where(
        _is(f"{ACTOR}.use_dynamic_bsz", False),
        rf"{_A}\.ppo_max_token_len_per_gpu",
        "use_dynamic_bsz is off",
        f"{ACTOR}.use_dynamic_bsz=true",
    ),
    _where(
        _is(f"{ROLLOUT}.log_prob_use_dynamic_bsz", False),
        rf"{_R}\.log_prob_max_token_len_per_gpu",
        "log_prob_use_dynamic_bsz is off",
        f"{ACTOR}.use_dynamic_bsz=true",
    ),
    _where(
        _is_not(f"{ACTOR}.strategy", "fsdp_turbo"),
        rf"{_FSDP}\.turbo_config\..+",
        "only the strategy fsdp_turbo reads it",
        f"{ACTOR}.strategy=fsdp_turbo",
    ),
    _where(
        _is_not(f"{ACTOR}.strategy", "fsdp"),
        rf"{_FSDP}\.use_orig_params",
        "only FSDP1 has it",
        f"{ACTOR}.strategy=fsdp",
    ),
    _where(
        _is_not(f"{ACTOR}.strategy", "fsdp2"),
        rf"{_FSDP}\.offload_policy",
        "only FSDP2 has it",
        f"{ACTOR}.strategy=fsdp2",
    ),
    _where(
        lambda recipe: not _lora(recipe),
        rf"{_M}\.(?:lora_alpha|target_modules|exclude_modules|lora\.merge)",
        "every weight is trained: lora_rank is 0",
        f"{MODEL}.lora_rank=64",
    ),
    _never(
        rf"{_M}\.lora\.(?!(?:rank|merge)$).+",
        "these are Megatron's adapters; verl's FSDP engine reads lora_rank, lora_alpha and "
        "target_modules",
        f"{MODEL}.lora_alpha or {MODEL}.target_modules",
    ),
    _where(
        lambda recipe: not recipe.get(f"{MODEL}.lora_rank"),
        rf"{_M}\.lora\.rank",
        "verl's FSDP engine makes no adapter of it",
        f"{MODEL}.lora_rank",
    ),
    _where(_is_not(_ESTIMATOR, "gae"), r"algorithm\.lam", "only the estimator gae reads it"),
    _where(
        _is_not(_ESTIMATOR, "gae", "reinforce_plus_plus"),
        r"algorithm\.gamma",
        "only the estimators gae and reinforce_plus_plus discount",
    ),
    _where(
        _is_not(_ESTIMATOR, "grpo", "grpo_vectorized", "grpo_passk", "gdpo"),
        r"algorithm\.norm_adv_by_std_in_grpo",
        "only the estimators of the GRPO family read it",
        f"{_ESTIMATOR}=grpo",
    ),
    _where(
        _is_not(_ESTIMATOR, "gdpo"),
        r"algorithm\.gdpo_reward_(?:keys|weights)(?:\..+)?",
        "only the estimator gdpo reads it",
        f"{_ESTIMATOR}=gdpo",
    ),
    _where(
        lambda recipe: recipe.is_chosen(f"{ROLLOUT}.seed"),
        r"grubrics\.seed",
        f"{ROLLOUT}.seed is set and wins",
        f"{ROLLOUT}.seed",
    ),
    _where(
        lambda recipe: not replaces_groups(recipe),
        r"grubrics\.max_refill_batches",
        "no step replaces groups",
        f"{FILTER}.enable=true",
    ),
    _where(
        bounds_generations,
        r"grubrics\.max_refill_batches",
        "max_num_gen_batches is what bounds a step's replacements",
        f"{FILTER}.max_num_gen_batches=0",
    ),
    _where(
        _is("algorithm.filter_groups.enable", False),
        r"algorithm\.filter_groups\.(?!enable$).+",
        "group filtering is off",
        "algorithm.filter_groups.enable=true",
    ),
    _where(
        lambda recipe: not recipe.get("algorithm.rollout_correction.rollout_is"),
        r"algorithm\.rollout_correction\.rollout_is_.+",
        "rollout_is is null, so nothing is weighted",
        "algorithm.rollout_correction.rollout_is=token",
    ),
    _where(
        lambda recipe: not recipe.get("algorithm.rollout_correction.rollout_rs"),
        r"algorithm\.rollout_correction\.rollout_rs_.+",
        "rollout_rs is null, so nothing is rejected",
        "algorithm.rollout_correction.rollout_rs=token_k1",
    ),
    _where(
        _is("algorithm.rollout_correction.bypass_mode", False),
        r"algorithm\.rollout_correction\.loss_type",
        "only bypass_mode reads it",
        "algorithm.rollout_correction.bypass_mode=true",
    ),
    _where(
        lambda recipe: not validates(recipe),
        rf"{_R}\.val_kwargs\..+|data\.(?:val_batch_size|val_max_samples|validation_shuffle)"
        r"|trainer\.(?:log_val_generations|validation_data_dir)",
        "nothing is validated: val_before_train is off and test_freq is not above 0",
        "trainer.test_freq=20",
    ),
    _where(
        _shows_no_generations,
        r"trainer\.log_val_generations",
        "no logger of the run takes tables; validation/ in the run directory has all generations",
        "trainer.logger=[console,wandb]",
    ),
    _where(
        lambda recipe: not recipe.get(f"{ROLLOUT}.val_kwargs.do_sample"),
        rf"{_R}\.val_kwargs\.(?:temperature|top_p|top_k)",
        "validation is greedy: val_kwargs.do_sample is off",
        f"{ROLLOUT}.val_kwargs.do_sample=true",
    ),
    _where(
        lambda recipe: not _saves(recipe),
        rf"{_A}\.checkpoint\.(?:save_contents|async_save)"
        r"|trainer\.max_(?:actor|critic)_ckpt_to_keep",
        "no checkpoint is saved: trainer.save_freq is not above 0",
        "trainer.save_freq=50",
    ),
    _where(
        _is("trainer.val_only", True),
        r"trainer\.val_before_train",
        "trainer.val_only=true validates, whatever this says",
        "trainer.val_only=false",
    ),
    _where(
        _is("trainer.val_only", True),
        rf"trainer\.(?:save_freq|test_freq|max_(?:actor|critic)_ckpt_to_keep)|{_A}\.optim\..+",
        "trainer.val_only=true validates once and trains nothing",
        "trainer.val_only=false",
    ),
    _where(
        _is_not("trainer.resume_mode", "resume_path"),
        r"trainer\.resume_from_path",
        "only resume_mode=resume_path looks there",
        "trainer.resume_mode=resume_path",
    ),
    _where(
        _is("trainer.resume_mode", "disable"),
        r"trainer\.del_local_ckpt_after_load",
        "nothing is loaded: resume_mode is disable",
    ),
    *(
        _where(
            _is_not(_MODE, mode),
            rf"trainer\.v1\.{mode}\..+",
            f"{_MODE} is another",
            f"{_MODE}={mode}",
        )
        for mode in ("sync", "colocate_async", "separate_async")
    ),
    _where(
        _is(_MODE, "sync"),
        r"trainer\.v1\.sampler\.max_off_policy_.+",
        "in the sync mode every trajectory is of the present weights",
        f"{_MODE}=colocate_async",
    ),
    _where(
        _is_not(_MODE, "sync"),
        r"trainer\.v1\.sampler\.sync_refill_failed_groups",
        "only the sync mode replaces groups",
        f"{_MODE}=sync",
    ),
    _where(
        _is_not(_MODE, "separate_async"),
        rf"{_R}\.(?:nnodes|n_gpus_per_node|standalone_gpu_memory_utilization)",
        "only trainer_mode=separate_async has a rollout pool of its own",
        f"{_MODE}=separate_async",
    ),
    _where(
        _is(f"{ROLLOUT}.name", "hf"),
        rf"{_R}\.(?:gpu_memory_utilization|enforce_eager|cudagraph_capture_sizes|ignore_eos"
        r"|expert_parallel_size|moe_tensor_parallel_size|max_num_batched_tokens|max_model_len"
        r"|enable_chunked_prefill|enable_prefix_caching|logprobs_mode|scheduling_policy"
        r"|quantization|quantization_config_file|limit_images|multi_stage_wake_up"
        r"|skip_tokenizer_init|enable_sleep_mode|enable_rollout_routing_replay|layered_summon"
        r"|moe_load_balance_metrics_interval|checkpoint_engine\.update_weights_bucket_megabytes"
        r"|disable_log_stats|router_config_path|sglang_engine_mode|server\..+|mtp\..+|engine_kwargs\.(?!hf\.).+)",
        "the rollout engine hf does not have it",
        f"{ROLLOUT}.name=vllm",
    ),
    *(
        _where(
            _is_not(f"{ROLLOUT}.name", engine),
            rf"{_R}\.engine_kwargs\.{engine}\..+",
            f"{ROLLOUT}.name is another engine",
            f"{ROLLOUT}.name={engine}",
        )
        for engine in ("hf", "vllm", "sglang", "trtllm")
    ),
    _where(
        lambda recipe: not recipe.get("reward.custom_reward_function.path"),
        r"reward\.custom_reward_function\.(?!path$).+|grubrics\.reward_(?:timeout|check)_s",
        "no function is named",
        "reward.custom_reward_function.path=rewards.py",
    ),
    _where(
        lambda recipe: bool(recipe.get("reward.custom_reward_function.path")),
        r"(?:judge|reward_config)\..+",
        "reward.custom_reward_function scores the rollouts",
        "reward.custom_reward_function.path=null",
    ),
    _where(
        lambda recipe: not asks_server(recipe.get("judge.provider")),
        r"judge\.(?!provider$|max_concurrent$).+",
        "the offline judge asks nobody",
        "judge.provider=openai",
    ),
    _where(
        _is("reward.reward_model.enable", False),
        r"reward\.reward_model\.(?!enable$).+",
        "there is no reward model",
        "reward.reward_model.enable=true",
    ),
    _where(
        _own_manager,
        r"reward\.reward_kwargs(?!\.overlong_buffer_cfg\.|\.max_resp_len$)(?:\..+)?",
        "of them GRubrics' own manager reads overlong_buffer_cfg and max_resp_len only",
        "reward.custom_reward_function.reward_kwargs",
    ),
    _where(
        _is(f"{MANAGER}.name", "naive"),
        r"reward\.reward_kwargs\..+",
        "verl's naive manager reads none of them",
        f"{MANAGER}.name=dapo",
    ),
    _where(
        lambda recipe: not recipe.get(f"{OVERLONG_BUFFER}.enable"),
        r"reward\.reward_kwargs\.(?:overlong_buffer_cfg\.(?!enable$).+|max_resp_len)",
        "the overlong buffer is off",
        f"{OVERLONG_BUFFER}.enable=true",
    ),
    _where(
        _own_manager,
        r"reward\.sandbox_fusion\..+",
        "the judge or your own function scores, and neither runs code in verl's sandbox",
    ),
    _where(
        _is("reward.reward_manager.source", "register"),
        r"reward\.reward_manager\.module\..+",
        "the manager is one of verl's own",
        "reward.reward_manager.source=importlib",
    ),
    _where(
        _is(f"{SAMPLER}.custom_sampler.path", OWN_SAMPLER),
        rf"{re.escape(SAMPLER)}\.sampler_kwargs\.(?!(?:{'|'.join(SAMPLER_KWARGS)})$).+",
        "the project's sampler takes no such value",
    ),
    _where(
        _is(f"{ROLLOUT}.calculate_log_probs", False),
        r"algorithm\.rollout_correction\.rollout_(?:is|rs)(?:_.+)?",
        "calculate_log_probs is off, so there is nothing to correct by",
        f"{ROLLOUT}.calculate_log_probs=true",
    ),
    _where(
        lambda recipe: recipe.get(f"{ACTOR}.optim.warmup_style") is not None,
        rf"{_A}\.optim\.lr_scheduler_type",
        "warmup_style is set and wins",
        f"{ACTOR}.optim.warmup_style=null",
    ),
    _where(
        _calls_no_tools,
        rf"{_R}\.multi_turn\.(?:max_(?:assistant|user)_turns|max_parallel_calls"
        r"|max_tool_response_length|tool_response_truncate_side|format)",
        "the agent loop single_turn_agent makes one turn and calls no tools",
        f"{ROLLOUT}.agent.default_agent_loop=tool_agent",
    ),
    _where(
        lambda recipe: not recipe.get(f"{ACTOR}.fsdp_config.entropy_from_logits_with_chunking"),
        r".+\.entropy_from_logits_chunk_size",
        "entropy_from_logits_with_chunking is off",
        f"{ACTOR}.entropy_from_logits_with_chunking=true",
    ),
    _where(
        lambda recipe: not recipe.get(f"{ACTOR}.fsdp_config.pad_to_length"),
        rf"{_FSDP}\.pad_to_length_bucket",
        "pad_to_length is off",
        f"{ACTOR}.pad_to_length=true",
    ),
    _where(
        lambda recipe: not recipe.get(f"{ACTOR}.fsdp_config.full_determinism"),
        rf"{_A}\.fsdp_config\.seed",
        "the engine seeds itself only with full_determinism",
        f"{ACTOR}.fsdp_config.full_determinism=true",
    ),
    _where(
        _is(f"{ACTOR}.strategy", "fsdp2"),
        rf"{_FSDP}\.wrap_policy\.min_num_params",
        "FSDP2 wraps layers by their class",
        f"{ACTOR}.strategy=fsdp",
    ),
    _where(
        _is("data.filter_overlong_prompts", False),
        r"data\.filter_overlong_prompts_workers",
        "filter_overlong_prompts is off",
        "data.filter_overlong_prompts=true",
    ),
    _where(
        _is(f"{ACTOR}.shuffle", False),
        rf"{_A}\.data_loader_seed",
        f"{ACTOR}.shuffle is off",
        f"{ACTOR}.shuffle=true",
    ),
    _where(
        lambda recipe: recipe.get("data.custom_cls.path") is None,
        r"data\.custom_cls\.name",
        "no file of a class is named",
        "data.custom_cls.path=dataset.py",
    ),
    _where(
        _is("reward_config.lambda_len", 0),
        r"reward_config\.char_threshold",
        "lambda_len is 0: length costs nothing",
        "reward_config.lambda_len=0.1",
    ),
    _where(
        _is("data.shuffle", False),
        r"data\.seed",
        "data.shuffle is off",
        "data.shuffle=true",
    ),
    _without("distillation.enabled", r"distillation\..+"),
    _without("skip.rollout_tq.enable", r"skip\.rollout_tq\..+"),
    _without("transfer_queue.metrics.enabled", r"transfer_queue\.metrics\..+"),
    _where(
        _is_not("transfer_queue.backend.storage_backend", "MooncakeStore"),
        r"transfer_queue\.backend\.MooncakeStore\..+",
        "the queue is kept elsewhere",
        "transfer_queue.backend.storage_backend=MooncakeStore",
    ),
    _where(
        lambda recipe: not recipe.get("global_profiler.steps"),
        r"global_profiler\.(?!steps$).+|.+\.profiler\..+",
        "global_profiler.steps names no step to profile",
        "global_profiler.steps=[2]",
    ),
    _where(
        lambda recipe: not recipe.get(f"{ROLLOUT}.trace.backend"),
        rf"{_R}\.trace\.(?!backend$).+",
        "nothing is traced",
        f"{ROLLOUT}.trace.backend=weave",
    ),
    _without(f"{ROLLOUT}.prometheus.enable", rf"{_R}\.prometheus\..+"),
    _without(f"{ROLLOUT}.disaggregation.enabled", rf"{_R}\.disaggregation\..+"),
    _without(f"{MODEL}.mtp.enable", rf"{_M}\.mtp\..+"),
    _without(f"{MODEL}.tiled_mlp.enabled", rf"{_M}\.tiled_mlp\..+"),
    _without(f"{MODEL}.use_fused_kernels", rf"{_M}\.fused_kernel_options\..+"),
    _without(f"{ACTOR}.fsdp_config.qat.enable", rf"{_A}\.fsdp_config\.qat\..+"),
    *_GUARD,
)

SFT_RULES: tuple[Rule, ...] = (
    _where(
        _is("lora.r", 0),
        r"lora\.(?!r$).+",
        "every weight is trained: lora.r is 0",
        "lora.r=64",
    ),
    _never(r"training\.logging_steps", "verl logs every step"),
    _never(
        r"grubrics\.(?:max_failed_share|max_refill_batches|reward_timeout_s|reward_check_s)",
        "supervised training has no rewards",
    ),
    _never(r"grubrics\.seed", "supervised training has a seed of its own", "training.seed"),
    _where(
        lambda recipe: recipe.get("training.max_steps") > 0,
        r"training\.num_train_epochs",
        "training.max_steps says how long the run is",
        "training.max_steps=-1",
    ),
    *_GUARD,
)
