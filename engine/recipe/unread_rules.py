"""The table of values without effect: keys, condition, reason, and what to set instead.

Which keys are read was taken from the source of verl 0.9.1's V1 trainer with its FSDP engine, and
of this project's rollout server, sampler and reward manager; a test compares the table with the
installed verl. A key that no rule names counts as read. The first rule that applies gives the
reason.
"""

from __future__ import annotations

from engine.judge.providers import asks_server
from engine.recipe.compose import (
    FILTER,
    LENGTH_SCHEDULE,
    MANAGER,
    OVERLONG_BUFFER,
    OWN_LOOPS,
    OWN_SAMPLER,
    RECORDING_MANAGER,
    SAMPLER,
    SAMPLER_KWARGS,
    TEMPERATURE_SCHEDULE,
    bounds_generations,
    replaces_groups,
)
from engine.recipe.curriculum import KEY as CURRICULUM
from engine.recipe.key_rules import (
    Condition,
    Rule,
    below,
    differs,
    equals,
    off,
    only_with,
    unset,
)
from engine.recipe.recipe import Recipe

ACTOR = "actor_rollout_ref.actor"
REF = "actor_rollout_ref.ref"
ROLLOUT = "actor_rollout_ref.rollout"
MODEL = "actor_rollout_ref.model"
CORRECTION = "algorithm.rollout_correction"
CUSTOM_REWARD = "reward.custom_reward_function"
ESTIMATOR = "algorithm.adv_estimator"
LOSS = f"{ACTOR}.policy_loss.loss_mode"
MODE = "trainer.v1.trainer_mode"

TABLE_LOGGERS = {"wandb", "swanlab", "mlflow", "trackio", "clearml", "tensorboard", "vemlp_wandb"}
"""The loggers to which verl sends generations of a validation."""


def has_critic(recipe: Recipe) -> bool:
    """verl's ``need_critic``."""
    enabled = recipe.get("critic.enable")
    return bool(enabled) if enabled is not None else recipe.get(ESTIMATOR) == "gae"


def has_reference(recipe: Recipe) -> bool:
    """verl's ``need_reference_policy``."""
    in_loss = recipe.get(f"{ACTOR}.use_kl_loss")
    return bool(in_loss or recipe.get("algorithm.use_kl_in_reward"))


def validates(recipe: Recipe) -> bool:
    at_start = recipe.get("trainer.val_before_train") or recipe.get("trainer.val_only")
    return bool(at_start) or _is_frequency(recipe.get("trainer.test_freq"))


def _is_frequency(steps: object) -> bool:
    return isinstance(steps, int) and steps > 0


def _both_clip_limits(recipe: Recipe) -> bool:
    """verl reads ``clip_ratio`` only for a side whose limit is null."""
    return all(recipe.get(f"{ACTOR}.clip_ratio_{side}") is not None for side in ("low", "high"))


def _no_table_logger(recipe: Recipe) -> bool:
    loggers = recipe.get("trainer.logger")
    return TABLE_LOGGERS.isdisjoint([loggers] if isinstance(loggers, str) else loggers)


def _single_turn(recipe: Recipe) -> bool:
    """Whether the agent loop is verl's plain one; a loop from the user's file may read any key."""
    custom = recipe.is_chosen(OWN_LOOPS) and recipe.get(OWN_LOOPS)
    return not custom and recipe.get(f"{ROLLOUT}.agent.default_agent_loop") == "single_turn_agent"


def _notifies(recipe: Recipe) -> bool:
    return bool(recipe.get("guard.command") or recipe.get("guard.webhook_variable"))


MIXED = Condition(lambda recipe: bool(recipe.get("grubrics.shares")), key="grubrics.shares")
IN_PHASES = Condition(lambda recipe: bool(recipe.get(CURRICULUM)), key=CURRICULUM)
UNSHUFFLED = Condition(
    lambda recipe: (
        not any(recipe.get(key) for key in ("data.shuffle", "grubrics.shares", CURRICULUM))
    )
)
NO_CRITIC = Condition(lambda recipe: not has_critic(recipe), key="critic.enable")
NO_REFERENCE = Condition(lambda recipe: not has_reference(recipe))
NO_VALIDATION = Condition(lambda recipe: not validates(recipe))
NO_CHECKPOINT = Condition(lambda recipe: not _is_frequency(recipe.get("trainer.save_freq")))
FULL_FINE_TUNING = Condition(
    lambda recipe: (
        not (recipe.get(f"{MODEL}.lora_rank") or recipe.get(f"{MODEL}.lora_adapter_path"))
    )
)
NO_GUARD = Condition(lambda recipe: not (recipe.get("guard.stop_on") or _notifies(recipe)))
OFFLINE_JUDGE = Condition(
    lambda recipe: not asks_server(recipe.get("judge.provider")), key="judge.provider"
)
CUSTOM_REWARD_SCORES = Condition(lambda recipe: bool(recipe.get(f"{CUSTOM_REWARD}.path")))
RECORDING = equals(f"{MANAGER}.name", RECORDING_MANAGER)
VALIDATES_ONLY = equals("trainer.val_only", True)
V1_IGNORES = "verl's V1 trainer does not read it"

GUARD_RULES = (
    Rule(
        below("guard", "stop_at_once notify_on every_s"),
        "the guard neither stops nor notifies",
        "guard.stop_on=[critical]",
        NO_GUARD,
    ),
    Rule(
        "guard.stop_at_once", "no finding stops the run", when=unset("guard.stop_on", "[critical]")
    ),
    Rule(
        "guard.notify_on",
        "no command or webhook is set to notify anybody",
        "guard.command=[mail, me]",
        Condition(lambda recipe: not _notifies(recipe)),
    ),
)

NEVER_READ = (
    Rule("model_engine", "it selects among verl's YAML files, which are already read"),
    Rule(
        f"{ACTOR}.grad_clip", "verl's engine clips by optim.clip_grad", f"{ACTOR}.optim.clip_grad"
    ),
    Rule(f"{ACTOR}.freeze_vision_tower", "verl's FSDP engine does not read it"),
    Rule(
        f"{ACTOR}.use_torch_compile {REF}.use_torch_compile",
        "verl's engine reads it below fsdp_config",
        f"{ACTOR}.fsdp_config.use_torch_compile",
    ),
    Rule(
        below(ACTOR, "use_remove_padding use_fused_kernels"),
        "the engine takes it from the model's section",
        f"{MODEL}.use_remove_padding or {MODEL}.use_fused_kernels",
    ),
    Rule(
        f"{ACTOR}.fsdp_config.strategy {REF}.fsdp_config.strategy",
        "the engine takes the strategy of its role",
        f"{ACTOR}.strategy",
    ),
    Rule(
        f"{ACTOR}.fsdp_config.dtype {REF}.fsdp_config.dtype",
        "FSDP computes in mixed_precision.param_dtype",
        f"{ACTOR}.fsdp_config.mixed_precision.param_dtype",
    ),
    Rule(
        f"{ACTOR}.optim.total_training_steps critic.optim.total_training_steps",
        "verl sets it to the length of the run",
        "trainer.total_training_steps",
    ),
    Rule("actor_rollout_ref.nccl_timeout", V1_IGNORES),
    Rule(
        f"{ROLLOUT}.do_sample",
        "training always samples",
        f"{ROLLOUT}.temperature, or for validation {ROLLOUT}.val_kwargs.do_sample",
    ),
    Rule(f"{ROLLOUT}.repetition_penalty", "verl's agent loop always sends 1.0"),
    Rule(f"{ROLLOUT}.over_sample_rate", V1_IGNORES),
    Rule(
        f"{ROLLOUT}.multi_turn.enable",
        "the agent loop decides whether there are several turns",
        f"{ROLLOUT}.agent.default_agent_loop=tool_agent",
    ),
    Rule(
        below(
            f"{ROLLOUT}.multi_turn",
            "num_repeat_rollouts use_inference_chat_template tokenization_sanity_check_mode",
        ),
        V1_IGNORES,
    ),
    Rule("trainer.v1.sync.*", "verl's sync mode has no settings"),
    Rule(
        f"{ACTOR}.fsdp_config.mixed_precision.* {REF}.fsdp_config.mixed_precision.*",
        "FSDP's mixed precision has only param_dtype, reduce_dtype and buffer_dtype",
        but="*.param_dtype *.reduce_dtype *.buffer_dtype",
    ),
    Rule("trainer.balance_batch", "verl's V1 trainer always balances its batches"),
    Rule("trainer.esi_redundant_time", V1_IGNORES),
    Rule(below(ACTOR, "use_prefix_grouper calculate_sum_pi_squared"), V1_IGNORES),
    Rule(f"{ACTOR}.rollout_n", "the trainer takes it from the rollout's section", f"{ROLLOUT}.n"),
    Rule(
        f"{ACTOR}.qat.*",
        "verl's engine reads it below fsdp_config",
        f"{ACTOR}.fsdp_config.qat",
    ),
    Rule("*.checkpoint.strict", "only Megatron's checkpoints read it"),
    Rule(f"{ROLLOUT}.agent.custom_async_server.*", "verl 0.9.1 does not read it"),
    Rule(
        below(
            "data",
            "return_raw_input_ids return_raw_chat return_full_prompt reward_fn_key tokenizer",
        ),
        "verl's V1 trainer passes raw conversations and does not read it",
    ),
    Rule(
        "data.truncation",
        "verl's V1 agent loop always truncates a long prompt on the left",
        "data.filter_overlong_prompts=true",
        differs("data.truncation", "left"),
    ),
    Rule("algorithm.use_pf_ppo algorithm.pf_ppo.*", "verl's V1 trainer has no PF-PPO"),
    Rule("trainer.ray_wait_register_center_timeout", V1_IGNORES),
    Rule(
        "trainer.use_v1",
        "grubrics-tui always runs verl's V1 trainer",
        when=equals("trainer.use_v1", False),
    ),
    Rule(
        "transfer_queue.enable",
        "verl's V1 trainer always uses its TransferQueue",
        when=equals("transfer_queue.enable", False),
    ),
    Rule(
        "skip.rollout.* skip.async_rollout.*",
        "verl's V1 trainer can skip rollouts only by skip.rollout_tq",
        "skip.rollout_tq",
    ),
    Rule(
        "reward.reward_manager.module.name",
        "verl loads reward.reward_manager.name from the module",
        "reward.reward_manager.name",
    ),
)
"""Keys without effect in every recipe."""

CRITIC_AND_KL = (
    Rule(
        "critic.* trainer.max_critic_ckpt_to_keep",
        f"there is no critic without {ESTIMATOR}=gae or critic.enable=true",
        when=NO_CRITIC,
    ),
    Rule(
        f"{REF}.*",
        "there is no reference model while both KL terms are off",
        f"{ACTOR}.use_kl_loss=true",
        NO_REFERENCE,
        but=f"{REF}.log_prob_*",  # The batch sizes are set beforehand for a run that has one.
    ),
    Rule(below(ACTOR, "kl_loss_coef kl_loss_type"), when=off(f"{ACTOR}.use_kl_loss")),
    Rule(
        "algorithm.kl_penalty algorithm.kl_ctrl.*",
        instead=f"algorithm.use_kl_in_reward=true, or {ACTOR}.use_kl_loss=true with kl_loss_coef",
        when=off("algorithm.use_kl_in_reward"),
    ),
    Rule(
        below("algorithm.kl_ctrl", "horizon target_kl"),
        "the coefficient is fixed",
        when=only_with("algorithm.kl_ctrl.type", "adaptive"),
    ),
)

LOSS_AND_OPTIMIZER = (
    Rule(
        f"{ACTOR}.clip_ratio",
        "clip_ratio_low and clip_ratio_high are set and take precedence",
        f"{ACTOR}.clip_ratio_low and {ACTOR}.clip_ratio_high",
        Condition(_both_clip_limits),
    ),
    Rule(
        f"{ACTOR}.clip_ratio_c",
        "this loss_mode has no dual clip",
        when=only_with(LOSS, "vanilla", "dppo_tv", "dppo_kl"),
    ),
    Rule(
        below(ACTOR, "clip_ratio clip_ratio_low clip_ratio_high"),
        "this loss_mode clips no ratio",
        f"{LOSS}=vanilla",
        equals(LOSS, "sapo", "gpg", "dro"),
    ),
    Rule(below(ACTOR, "tau_pos tau_neg"), when=only_with(LOSS, "sapo")),
    Rule(f"{ACTOR}.policy_loss.clip_cov_*", when=only_with(LOSS, "clip_cov")),
    Rule(below(f"{ACTOR}.policy_loss", "kl_cov_ratio ppo_kl_coef"), when=only_with(LOSS, "kl_cov")),
    Rule(f"{ACTOR}.policy_loss.dro_beta", when=only_with(LOSS, "dro")),
    Rule(
        f"{ACTOR}.loss_agg_mode",
        "SAPO always takes seq-mean-token-mean",
        when=equals(LOSS, "sapo"),
    ),
    Rule(
        f"{ACTOR}.loss_scale_factor",
        when=only_with(f"{ACTOR}.loss_agg_mode", "seq-mean-token-sum-norm"),
    ),
    Rule(
        below(f"{ACTOR}.optim", "min_lr_ratio num_cycles"),
        when=only_with(f"{ACTOR}.optim.lr_scheduler_type", "cosine"),
    ),
    Rule(
        f"{ACTOR}.optim.lr_warmup_steps_ratio",
        "lr_warmup_steps is set and takes precedence",
        f"{ACTOR}.optim.lr_warmup_steps=-1",
        Condition(lambda recipe: (recipe.get(f"{ACTOR}.optim.lr_warmup_steps") or -1) >= 0),
    ),
    Rule(
        f"{ACTOR}.ppo_micro_batch_size_per_gpu",
        "use_dynamic_bsz cuts micro batches by tokens",
        f"{ACTOR}.ppo_max_token_len_per_gpu",
        equals(f"{ACTOR}.use_dynamic_bsz", True),
    ),
    Rule(f"{ACTOR}.ppo_max_token_len_per_gpu", when=off(f"{ACTOR}.use_dynamic_bsz")),
    Rule(
        f"{ROLLOUT}.log_prob_max_token_len_per_gpu",
        instead=f"{ACTOR}.use_dynamic_bsz=true",
        when=off(f"{ROLLOUT}.log_prob_use_dynamic_bsz"),
    ),
)

MODEL_AND_FSDP = (
    Rule(
        f"{ACTOR}.fsdp_config.turbo_config.* {REF}.fsdp_config.turbo_config.*",
        when=only_with(f"{ACTOR}.strategy", "fsdp_turbo"),
    ),
    Rule(
        f"{ACTOR}.fsdp_config.use_orig_params {REF}.fsdp_config.use_orig_params",
        "only FSDP1 has it",
        when=only_with(f"{ACTOR}.strategy", "fsdp"),
    ),
    Rule(
        f"{ACTOR}.fsdp_config.offload_policy {REF}.fsdp_config.offload_policy",
        "only FSDP2 has it",
        when=only_with(f"{ACTOR}.strategy", "fsdp2"),
    ),
    Rule(
        below(MODEL, "lora_alpha target_modules exclude_modules lora.merge"),
        "full fine-tuning (no LoRA): lora_rank is 0",
        f"{MODEL}.lora_rank=64",
        FULL_FINE_TUNING,
    ),
    Rule(
        f"{MODEL}.lora.*",
        "this section is for Megatron's adapters; verl's FSDP engine reads lora_rank, lora_alpha "
        "and target_modules",
        f"{MODEL}.lora_alpha or {MODEL}.target_modules",
        but=below(MODEL, "lora.rank lora.merge"),
    ),
    Rule(
        f"{MODEL}.lora.rank",
        "verl's FSDP engine reads lora_rank",
        f"{MODEL}.lora_rank",
        unset(f"{MODEL}.lora_rank", "64"),
    ),
)

ESTIMATORS_AND_GROUPS = (
    Rule("algorithm.lam", "only the estimator gae reads it", when=differs(ESTIMATOR, "gae")),
    Rule(
        "algorithm.gamma",
        "only the estimators gae and reinforce_plus_plus discount",
        when=differs(ESTIMATOR, "gae", "reinforce_plus_plus"),
    ),
    Rule(
        "algorithm.norm_adv_by_std_in_grpo",
        "only the estimators of the GRPO family read it",
        when=only_with(ESTIMATOR, "grpo", "grpo_vectorized", "grpo_passk", "gdpo"),
    ),
    Rule(
        below(
            "algorithm",
            "gdpo_reward_keys gdpo_reward_keys.* gdpo_reward_weights gdpo_reward_weights.*",
        ),
        when=only_with(ESTIMATOR, "gdpo"),
    ),
    Rule(
        "grubrics.seed",
        f"{ROLLOUT}.seed is set and takes precedence",
        f"{ROLLOUT}.seed",
        Condition(lambda recipe: recipe.is_chosen(f"{ROLLOUT}.seed")),
    ),
    Rule(
        "grubrics.max_refill_batches",
        "no step replaces groups",
        f"{FILTER}.enable=true",
        Condition(lambda recipe: not replaces_groups(recipe)),
    ),
    Rule(
        "grubrics.max_refill_batches",
        "max_num_gen_batches limits the replacements of a step",
        f"{FILTER}.max_num_gen_batches=0",
        Condition(bounds_generations),
    ),
    Rule(f"{FILTER}.*", when=off(f"{FILTER}.enable")),
    Rule(
        f"{CORRECTION}.rollout_is_*",
        "rollout_is is null: no importance weights",
        when=unset(f"{CORRECTION}.rollout_is", "token"),
    ),
    Rule(
        f"{CORRECTION}.rollout_rs_*",
        "rollout_rs is null: no rejection sampling",
        when=unset(f"{CORRECTION}.rollout_rs", "token_k1"),
    ),
    Rule(f"{CORRECTION}.loss_type", when=off(f"{CORRECTION}.bypass_mode")),
)

TRAINER = (
    Rule(
        f"{ROLLOUT}.temperature",
        "grubrics.temperature_schedule sets the temperature of every step",
        f"{TEMPERATURE_SCHEDULE}.steps=null",
        Condition(lambda recipe: bool(recipe.get(f"{TEMPERATURE_SCHEDULE}.steps"))),
    ),
    *(
        Rule(below(section, "initial final"), when=unset(f"{section}.steps", "150"))
        for section in (TEMPERATURE_SCHEDULE, LENGTH_SCHEDULE)
    ),
    Rule(
        f"{ROLLOUT}.val_kwargs.* "
        "data.val_batch_size data.val_max_samples data.validation_shuffle "
        "trainer.log_val_generations trainer.validation_data_dir",
        "no validation: val_before_train is off and test_freq is not above 0",
        "trainer.test_freq=20",
        NO_VALIDATION,
    ),
    Rule(
        "trainer.log_val_generations",
        "no logger of the run takes tables; validation/ in the run directory has all generations",
        "trainer.logger=[console,wandb]",
        Condition(_no_table_logger),
    ),
    Rule(
        below(f"{ROLLOUT}.val_kwargs", "temperature top_p top_k"),
        "validation is greedy: val_kwargs.do_sample is off",
        when=off(f"{ROLLOUT}.val_kwargs.do_sample"),
    ),
    Rule(
        f"{ACTOR}.checkpoint.save_contents {ACTOR}.checkpoint.async_save "
        "trainer.max_actor_ckpt_to_keep trainer.max_critic_ckpt_to_keep",
        "no checkpoint is saved: trainer.save_freq is not above 0",
        "trainer.save_freq=50",
        NO_CHECKPOINT,
    ),
    Rule(
        "trainer.val_before_train",
        "trainer.val_only=true always validates",
        "trainer.val_only=false",
        VALIDATES_ONLY,
    ),
    Rule(
        "trainer.save_freq trainer.test_freq "
        "trainer.max_actor_ckpt_to_keep trainer.max_critic_ckpt_to_keep "
        f"{ACTOR}.optim.* {TEMPERATURE_SCHEDULE}.* {LENGTH_SCHEDULE}.*",
        "trainer.val_only=true validates once and trains nothing",
        "trainer.val_only=false",
        VALIDATES_ONLY,
    ),
    Rule("trainer.resume_from_path", when=only_with("trainer.resume_mode", "resume_path")),
    Rule(
        "trainer.del_local_ckpt_after_load",
        "no checkpoint is loaded: resume_mode is disable",
        when=equals("trainer.resume_mode", "disable"),
    ),
    *(
        Rule(f"trainer.v1.{mode}.*", when=only_with(MODE, mode))
        for mode in ("sync", "colocate_async", "separate_async")
    ),
    Rule(
        "trainer.v1.sampler.max_off_policy_*",
        "in sync mode, all rollouts come from the current policy",
        f"{MODE}=colocate_async",
        equals(MODE, "sync"),
    ),
    Rule(
        "trainer.v1.sampler.sync_refill_failed_groups",
        "only the sync mode replaces groups",
        when=only_with(MODE, "sync"),
    ),
    Rule(
        below(ROLLOUT, "nnodes n_gpus_per_node standalone_gpu_memory_utilization"),
        "only trainer_mode=separate_async has a separate rollout pool",
        when=only_with(MODE, "separate_async"),
    ),
)

ENGINES = (
    Rule(
        below(
            ROLLOUT,
            "gpu_memory_utilization enforce_eager cudagraph_capture_sizes ignore_eos "
            "expert_parallel_size moe_tensor_parallel_size max_num_batched_tokens max_model_len "
            "enable_chunked_prefill enable_prefix_caching logprobs_mode scheduling_policy "
            "quantization quantization_config_file limit_images multi_stage_wake_up "
            "skip_tokenizer_init enable_sleep_mode enable_rollout_routing_replay layered_summon "
            "moe_load_balance_metrics_interval checkpoint_engine.update_weights_bucket_megabytes "
            "disable_log_stats router_config_path sglang_engine_mode server.* mtp.* "
            "engine_kwargs.*",
        ),
        "the rollout engine hf does not have it",
        f"{ROLLOUT}.name=vllm",
        equals(f"{ROLLOUT}.name", "hf"),
        but=f"{ROLLOUT}.engine_kwargs.hf.*",
    ),
    *(
        Rule(f"{ROLLOUT}.engine_kwargs.{engine}.*", when=only_with(f"{ROLLOUT}.name", engine))
        for engine in ("hf", "vllm", "sglang", "trtllm")
    ),
)

REWARD = (
    Rule("grubrics.blocked_reward", when=unset("grubrics.blocklist", "[TEXT]")),
    Rule(
        f"{CUSTOM_REWARD}.* grubrics.reward_timeout_s grubrics.reward_check_s",
        "no reward function is set",
        when=unset(f"{CUSTOM_REWARD}.path", "rewards.py"),
    ),
    Rule(
        "judge.* reward_config.*",
        f"{CUSTOM_REWARD} scores the rollouts",
        f"{CUSTOM_REWARD}.path=null",
        CUSTOM_REWARD_SCORES,
    ),
    Rule(
        "judge.*",
        "the offline judge sends no requests",
        "judge.provider=openai",
        OFFLINE_JUDGE,
        but="judge.max_concurrent",
    ),
    Rule("reward.reward_model.*", when=off("reward.reward_model.enable")),
    Rule(
        "reward.reward_kwargs reward.reward_kwargs.*",
        "GRubrics' reward manager reads only overlong_buffer_cfg and max_resp_len",
        f"{CUSTOM_REWARD}.reward_kwargs",
        RECORDING,
        but=f"{OVERLONG_BUFFER}.* reward.reward_kwargs.max_resp_len",
    ),
    Rule(
        "reward.reward_kwargs.*",
        "verl's naive manager reads no reward_kwargs",
        f"{MANAGER}.name=dapo",
        equals(f"{MANAGER}.name", "naive"),
    ),
    Rule(
        f"{OVERLONG_BUFFER}.* reward.reward_kwargs.max_resp_len",
        "the overlong buffer is off",
        when=off(f"{OVERLONG_BUFFER}.enable"),
    ),
    Rule(
        "reward.sandbox_fusion.*",
        "neither the judge nor a custom reward function runs code in verl's sandbox",
        when=RECORDING,
    ),
    Rule(
        "reward.reward_manager.module.*",
        "the reward manager is built into verl",
        "reward.reward_manager.source=importlib",
        equals("reward.reward_manager.source", "register"),
    ),
    Rule(
        "reward_config.char_threshold",
        "lambda_len is 0: no length penalty",
        "reward_config.lambda_len=0.1",
        equals("reward_config.lambda_len", 0),
    ),
)

GRPO_RULES: tuple[Rule, ...] = (
    *NEVER_READ,
    *CRITIC_AND_KL,
    *LOSS_AND_OPTIMIZER,
    *MODEL_AND_FSDP,
    *ESTIMATORS_AND_GROUPS,
    *TRAINER,
    *ENGINES,
    *REWARD,
    Rule(
        f"{SAMPLER}.sampler_kwargs.*",
        "this project's sampler does not have it",
        when=equals(f"{SAMPLER}.custom_sampler.path", OWN_SAMPLER),
        but=below(f"{SAMPLER}.sampler_kwargs", " ".join(SAMPLER_KWARGS)),
    ),
    Rule(
        f"{CORRECTION}.rollout_is {CORRECTION}.rollout_is_* "
        f"{CORRECTION}.rollout_rs {CORRECTION}.rollout_rs_*",
        "calculate_log_probs is off: the correction has no log probabilities to compare",
        when=off(f"{ROLLOUT}.calculate_log_probs"),
    ),
    Rule(
        f"{ACTOR}.optim.lr_scheduler_type",
        "warmup_style is set and takes precedence",
        f"{ACTOR}.optim.warmup_style=null",
        differs(f"{ACTOR}.optim.warmup_style", None),
    ),
    Rule(
        "grubrics.tool_timeout_s "
        + below(
            f"{ROLLOUT}.multi_turn",
            "max_assistant_turns max_user_turns max_parallel_calls max_tool_response_length "
            "tool_response_truncate_side format function_tool_path tool_config_path",
        ),
        "the agent loop single_turn_agent makes one turn and calls no tools",
        f"{ROLLOUT}.agent.default_agent_loop=tool_agent",
        Condition(_single_turn),
    ),
    Rule(
        "*.entropy_from_logits_chunk_size",
        "entropy_from_logits_with_chunking is off",
        f"{ACTOR}.entropy_from_logits_with_chunking=true",
        off(f"{ACTOR}.fsdp_config.entropy_from_logits_with_chunking"),
    ),
    Rule(
        f"{ACTOR}.fsdp_config.pad_to_length_bucket {REF}.fsdp_config.pad_to_length_bucket",
        "pad_to_length is off",
        f"{ACTOR}.pad_to_length=true",
        off(f"{ACTOR}.fsdp_config.pad_to_length"),
    ),
    Rule(
        f"{ACTOR}.fsdp_config.seed",
        "the engine sets its seed only with full_determinism",
        when=off(f"{ACTOR}.fsdp_config.full_determinism"),
    ),
    Rule(
        f"{ACTOR}.fsdp_config.wrap_policy.min_num_params "
        f"{REF}.fsdp_config.wrap_policy.min_num_params",
        "FSDP2 wraps layers by their class",
        f"{ACTOR}.strategy=fsdp",
        equals(f"{ACTOR}.strategy", "fsdp2"),
    ),
    Rule("data.filter_overlong_prompts_workers", when=off("data.filter_overlong_prompts")),
    Rule(f"{ACTOR}.data_loader_seed", when=off(f"{ACTOR}.shuffle")),
    Rule(
        "data.custom_cls.name",
        "no file with the class is set",
        when=unset("data.custom_cls.path", "dataset.py"),
    ),
    Rule("data.seed", "data.shuffle is off", "data.shuffle=true", UNSHUFFLED),
    Rule("data.shuffle", "grubrics.shares mixes the files", "grubrics.shares=null", MIXED),
    Rule("data.shuffle", f"{CURRICULUM} mixes the files", f"{CURRICULUM}=null", IN_PHASES),
    Rule("distillation.*", when=off("distillation.enabled")),
    Rule("skip.rollout_tq.*", when=off("skip.rollout_tq.enable")),
    Rule("transfer_queue.metrics.*", when=off("transfer_queue.metrics.enabled")),
    Rule(
        "transfer_queue.backend.MooncakeStore.*",
        "the queue has another storage backend",
        when=only_with("transfer_queue.backend.storage_backend", "MooncakeStore"),
    ),
    Rule(
        "global_profiler.* *.profiler.*",
        "global_profiler.steps names no step to profile",
        when=unset("global_profiler.steps", "[2]"),
    ),
    Rule(f"{ROLLOUT}.trace.*", "tracing is off", when=unset(f"{ROLLOUT}.trace.backend", "weave")),
    Rule(f"{ROLLOUT}.prometheus.*", when=off(f"{ROLLOUT}.prometheus.enable")),
    Rule(f"{ROLLOUT}.disaggregation.*", when=off(f"{ROLLOUT}.disaggregation.enabled")),
    Rule(f"{MODEL}.mtp.*", when=off(f"{MODEL}.mtp.enable")),
    Rule(f"{MODEL}.tiled_mlp.*", when=off(f"{MODEL}.tiled_mlp.enabled")),
    Rule(f"{MODEL}.fused_kernel_options.*", when=off(f"{MODEL}.use_fused_kernels")),
    Rule(f"{ACTOR}.fsdp_config.qat.*", when=off(f"{ACTOR}.fsdp_config.qat.enable")),
    *GUARD_RULES,
)

SFT_RULES: tuple[Rule, ...] = (
    Rule("lora.*", "full fine-tuning (no LoRA): lora.r is 0", when=unset("lora.r", "64")),
    Rule("training.logging_steps", "verl logs every step"),
    Rule(
        "training.eval_steps",
        "there is no validation without data.val_file",
        when=unset("data.val_file", "FILE"),
    ),
    Rule(
        "training.min_lr_ratio",
        "only the cosine schedule falls",
        when=only_with("training.lr_scheduler_type", "cosine"),
    ),
    Rule(
        below(
            "grubrics",
            "max_failed_share max_refill_batches reward_timeout_s reward_check_s blocklist "
            "blocked_reward tool_timeout_s",
        ),
        "SFT has no rewards",
    ),
    Rule(f"{TEMPERATURE_SCHEDULE}.* {LENGTH_SCHEDULE}.*", "SFT samples no rollouts"),
    Rule(CURRICULUM, "SFT has no phases"),
    Rule("grubrics.final_model", "SFT always writes its model"),
    Rule("grubrics.seed", "SFT reads training.seed", "training.seed"),
    Rule(
        "training.num_train_epochs",
        "training.max_steps sets the length of the run",
        "training.max_steps=-1",
        Condition(lambda recipe: recipe.get("training.max_steps") > 0),
    ),
    *GUARD_RULES,
)
