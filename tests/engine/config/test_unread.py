"""Values that a person set and that nothing reads are named, and no others."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.config.compose import TEMPERATURE_SCHEDULE, effective, sampling
from engine.config.load import Config, load_config
from engine.config.unread import read_keys, switched_off, unread
from tests.paths import CONFIGS

SHIPPED = sorted(p for p in CONFIGS.glob("*.yaml") if "grubrics:" in p.read_text())
ACTOR = "actor_rollout_ref.actor"
ROLLOUT = "actor_rollout_ref.rollout"
SCHEDULED = (
    f"{TEMPERATURE_SCHEDULE}.initial=0.5",
    f"{TEMPERATURE_SCHEDULE}.final=0.15",
    f"{TEMPERATURE_SCHEDULE}.steps=150",
)


def config(*overrides: str, name: str = "grpo_tiny", **env: str) -> Config:
    return load_config(str(CONFIGS / f"{name}.yaml"), overrides, env)


def named(*overrides: str, name: str = "grpo_tiny", **env: str) -> list[str]:
    return [one.key for one in unread(config(*overrides, name=name, **env))]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_value_of_a_shipped_config_has_an_effect(path: Path) -> None:
    assert unread(load_config(str(path), (), {})) == []


@pytest.mark.parametrize(
    "override",
    [
        "critic.optim.lr=1e-3",
        f"{ACTOR}.kl_loss_coef=0.1",
        "algorithm.kl_ctrl.kl_coef=0.1",
        f"{ACTOR}.clip_ratio=0.3",
        f"{ACTOR}.grad_clip=0.5",
        f"{ACTOR}.tau_pos=2.0",
        f"{ACTOR}.loss_scale_factor=64",
        f"{ACTOR}.use_torch_compile=false",
        f"{ACTOR}.optim.min_lr_ratio=0.5",
        "actor_rollout_ref.model.lora_alpha=64",
        "actor_rollout_ref.model.lora.rank=8",
        f"{ROLLOUT}.gpu_memory_utilization=0.3",
        f"{ROLLOUT}.engine_kwargs.vllm.seed=3",
        f"{ROLLOUT}.do_sample=false",
        f"{ROLLOUT}.val_kwargs.top_p=0.5",
        "algorithm.gamma=0.9",
        "algorithm.filter_groups.metric=acc",
        "algorithm.use_pf_ppo=true",
        "trainer.v1.separate_async.parameter_sync_step=2",
        "trainer.v1.sampler.max_off_policy_threshold=2",
        "trainer.use_v1=false",
        "trainer.resume_from_path=x/global_step_3",
        "reward.reward_model.model_path=x",
        "reward.custom_reward_function.name=f",
        "reward.sandbox_fusion.url=http://x",
        "distillation.distillation_loss.topk=8",
        "judge.model=gpt-5-mini",
        "data.truncation=middle",
        "grubrics.max_refill_batches=3",
        "grubrics.reward_timeout_s=5",
        "grubrics.reward_check_s=5",
        "grubrics.temperature_schedule.initial=0.5",
        "trainer.log_val_generations=5",
        f"{ACTOR}.data_loader_seed=3",
        "data.custom_cls.name=Rows",
        f"{ROLLOUT}.disable_log_stats=false",
        "guard.every_s=3",
        "trainer.balance_batch=false",
        "trainer.v1.sync.anything=2",
        "trainer.v1.sampler.sampler_kwargs.anything=2",
        f"{ACTOR}.fsdp_config.mixed_precision.cast_dtype=bf16",
        "trainer.esi_redundant_time=60",
        f"{ACTOR}.use_prefix_grouper=true",
        f"{ACTOR}.rollout_n=4",
        f"{ACTOR}.qat.enable=true",
        f"{ACTOR}.checkpoint.strict=false",
        f"{ACTOR}.entropy_from_logits_chunk_size=64",
        f"{ACTOR}.fsdp_config.pad_to_length_bucket=64",
        f"{ACTOR}.fsdp_config.seed=3",
        f"{ACTOR}.fsdp_config.wrap_policy.min_num_params=1000",
        f"{ROLLOUT}.moe_load_balance_metrics_interval=5",
        f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes=64",
        f"{ROLLOUT}.multi_turn.max_assistant_turns=4",
        f"{ROLLOUT}.multi_turn.format=llama3_json",
        f"{ROLLOUT}.multi_turn.tokenization_sanity_check_mode=disable",
    ],
)
def test_a_value_without_effect_is_named_with_its_reason(override: str) -> None:
    (result,) = unread(config(override))
    assert result.key == override.partition("=")[0]
    assert result.origin == "cli"
    assert result.reason


@pytest.mark.parametrize(
    "overrides",
    [
        (f"{ACTOR}.use_kl_loss=true", f"{ACTOR}.kl_loss_coef=0.1"),
        ("algorithm.use_kl_in_reward=true", "algorithm.kl_ctrl.kl_coef=0.1"),
        (f"{ACTOR}.clip_ratio=0.3", f"{ACTOR}.clip_ratio_low=null"),
        (f"{ACTOR}.clip_ratio_high=0.3",),
        (f"{ACTOR}.policy_loss.loss_mode=sapo", f"{ACTOR}.tau_pos=2.0"),
        (f"{ACTOR}.optim.lr_scheduler_type=cosine", f"{ACTOR}.optim.min_lr_ratio=0.5"),
        ("actor_rollout_ref.model.lora_rank=8", "actor_rollout_ref.model.lora_alpha=64"),
        ("algorithm.filter_groups.enable=true", "algorithm.filter_groups.metric=acc"),
        ("algorithm.filter_groups.enable=true", "grubrics.max_refill_batches=3"),
        ("trainer.v1.sampler.sync_refill_failed_groups=true", "grubrics.max_refill_batches=3"),
        ("trainer.v1.trainer_mode=colocate_async", "grubrics.max_refill_batches=3"),
        ("judge.provider=openai", "judge.model=gpt-5-mini"),
        (
            f"{ROLLOUT}.agent.default_agent_loop=tool_agent",
            f"{ROLLOUT}.multi_turn.max_assistant_turns=4",
        ),
        (
            f"{ROLLOUT}.agent.agent_loop_config_path=loops.yaml",
            f"{ROLLOUT}.multi_turn.max_user_turns=4",
        ),
        (f"{ACTOR}.fsdp_config.full_determinism=true", f"{ACTOR}.fsdp_config.seed=3"),
        (f"{ACTOR}.pad_to_length=true", f"{ACTOR}.fsdp_config.pad_to_length_bucket=64"),
        ("trainer.logger=[wandb]", "trainer.log_val_generations=5"),
        ("guard.command=[echo]", "guard.notify_on=[warning]"),
        (f"{ACTOR}.shuffle=true", f"{ACTOR}.data_loader_seed=3"),
        ("data.shuffle=true", "trainer.test_freq=-1", "trainer.save_freq=-1"),
    ],
)
def test_a_value_that_is_read_is_not_named(overrides: tuple[str, ...]) -> None:
    assert named(*overrides) == []


def test_a_key_that_has_another_name_is_named_with_it() -> None:
    (value,) = unread(config(f"{ACTOR}.grad_clip=0.5"))
    assert value.instead == f"{ACTOR}.optim.clip_grad"


def test_a_default_that_is_spelled_out_is_not_named() -> None:
    assert named(f"{ACTOR}.grad_clip=1.0", "trainer.use_v1=true", "algorithm.gamma=1.0") == []


def test_a_value_from_the_environment_is_named_as_such() -> None:
    (result,) = unread(config(JUDGE_MODEL="gpt-5-mini"))
    assert (result.key, result.origin) == ("judge.model", "environment")


def test_a_value_that_another_one_refers_to_is_read() -> None:
    assert named(f"{ACTOR}.grad_clip=0.5", f"{ACTOR}.optim.clip_grad=${{{ACTOR}.grad_clip}}") == []


def test_what_an_override_switches_off_in_the_file_is_no_mistake_of_the_file() -> None:
    silenced = config("judge.provider=offline", name="verl_grpo_debug")
    assert unread(silenced) == []
    expected = ["judge.model", "judge.timeout_s", "judge.max_tokens"]
    assert [value.key for value in switched_off(silenced)] == expected


def test_an_override_that_another_one_silences_is_named() -> None:
    assert named("judge.provider=offline", "judge.model=m", name="verl_grpo_debug") == [
        "judge.model"
    ]


def test_a_file_that_silences_its_own_value_is_named(tmp_path: Path) -> None:
    text = (CONFIGS / "grpo_tiny.yaml").read_text()
    path = tmp_path / "own.yaml"
    path.write_text(text.replace("provider: offline", "provider: offline\n  model: gpt-5-mini"))
    overridden = load_config(str(path), ("trainer.test_freq=-1",), {})
    assert [value.key for value in unread(overridden)] == ["judge.model"]


def test_the_judge_is_not_read_where_a_function_scores() -> None:
    function = "reward.custom_reward_function.path=rewards.py"
    assert named(function, "reward_config.lambda_len=0.5") == ["reward_config.lambda_len"]
    assert [value.key for value in switched_off(config(function))] == [
        "reward_config.use_contrastive"
    ]


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (
            (
                "algorithm.filter_groups.enable=true",
                "algorithm.filter_groups.max_num_gen_batches=4",
            ),
            "grubrics.max_refill_batches=3",
        ),
        ((f"{ROLLOUT}.seed=5",), "grubrics.seed=3"),
        (
            (f"{ROLLOUT}.calculate_log_probs=false",),
            "algorithm.rollout_correction.rollout_is=token",
        ),
        ((f"{ACTOR}.optim.warmup_style=constant",), f"{ACTOR}.optim.lr_scheduler_type=cosine"),
        (("reward_config.lambda_len=0",), "reward_config.char_threshold=2000"),
        (("guard.stop_on=[error]",), "guard.notify_on=[warning]"),
        (("guard.command=[echo]",), "guard.stop_at_once=true"),
        (("trainer.val_only=true",), "trainer.val_before_train=false"),
        (("trainer.val_only=true",), "trainer.save_freq=7"),
        (("trainer.val_only=true",), f"{ACTOR}.optim.weight_decay=0.3"),
        (("trainer.save_freq=-1",), "trainer.max_actor_ckpt_to_keep=3"),
        (SCHEDULED, f"{ROLLOUT}.temperature=0.8"),
    ],
)
def test_a_value_that_another_one_overrules_is_named(overrides: tuple[str, ...], key: str) -> None:
    assert named(*overrides, key) == [key.partition("=")[0]]


def test_every_value_that_is_handed_to_the_sampler_is_known_as_its_own() -> None:
    given = {key for key in sampling(config()) if ".sampler_kwargs." in key}
    assert given <= {*read_keys(effective(config(), Path()))}


@pytest.mark.parametrize("name", ["grpo_tiny", "verl_grpo"])
def test_the_seed_is_that_of_the_rollouts_on_any_device(name: str, tmp_path: Path) -> None:
    whole = effective(config("grubrics.seed=7", name=name), tmp_path)
    assert whole.get(f"{ROLLOUT}.seed") == 7


BUFFER = "reward.reward_kwargs.overlong_buffer_cfg"
SHAPED = (
    f"{BUFFER}.enable=true",
    f"{BUFFER}.len=16",
    f"{BUFFER}.penalty_factor=1.0",
    "reward.reward_kwargs.max_resp_len=64",
)


@pytest.mark.parametrize("manager", [(), ("reward.reward_manager.name=dapo",)])
def test_an_overlong_buffer_is_read_by_dapo_and_where_no_manager_is_chosen(
    manager: tuple[str, ...],
) -> None:
    assert named(*SHAPED, *manager) == []


def test_an_overlong_buffer_beside_a_chosen_naive_manager_is_named() -> None:
    result = unread(config(*SHAPED, "reward.reward_manager.name=naive"))
    assert {one.key for one in result} == {text.partition("=")[0] for text in SHAPED}
    assert {one.instead for one in result} == {"reward.reward_manager.name=dapo"}


def test_sft_names_the_schedule_of_a_temperature() -> None:
    assert len(named(*SCHEDULED, name="sft_tiny")) == len(SCHEDULED)


def test_sft_names_what_only_rewards_read() -> None:
    overrides = ("grubrics.max_failed_share=0.1", "grubrics.seed=7")
    assert len(named(*overrides, name="sft_tiny")) == len(overrides)


@pytest.mark.row("V15")
def test_sft_names_a_validation_interval_without_validation_data() -> None:
    (value,) = unread(config("training.eval_steps=5", name="sft_tiny"))
    assert (value.key, value.instead) == ("training.eval_steps", "data.val_file=FILE")
    assert named("training.eval_steps=5", "data.val_file=val.jsonl", name="sft_tiny") == []


def test_sft_names_a_lowest_rate_that_a_constant_schedule_does_not_reach() -> None:
    overrides = ("training.min_lr_ratio=0.1", "training.lr_scheduler_type=constant")
    assert named(*overrides, name="sft_tiny") == ["training.min_lr_ratio"]


def test_sft_names_adapters_without_a_rank_and_epochs_beside_steps() -> None:
    overrides = ("lora.alpha=64", "training.logging_steps=5", "training.num_train_epochs=7")
    expected = ["lora.alpha", "training.num_train_epochs", "training.logging_steps"]
    assert sorted(named(*overrides, name="sft_tiny")) == sorted(expected)


@pytest.mark.parametrize(
    ("override", "new"),
    [
        ("custom_reward_function.path=x.py", "reward.custom_reward_function.path"),
        ("custom_reward_function.name=f", "reward.custom_reward_function.name"),
        ("reward_model.enable=true", "reward.reward_model.enable"),
        ("reward_model.reward_manager=dapo", "reward.reward_manager.name"),
        ("reward_model.rollout.name=vllm", "reward.reward_model.rollout.name"),
        ("+reward_model.reward_kwargs.k=1", "reward.reward_kwargs.k"),
        ("sandbox_fusion.url=http://x", "reward.sandbox_fusion.url"),
        ("+actor_rollout_ref.rollout.swap_space=4", f"{ROLLOUT}.engine_kwargs.vllm.swap_space"),
    ],
)
def test_a_key_of_earlier_versions_is_refused_with_its_present_name(
    override: str, new: str
) -> None:
    with pytest.raises(UsageError, match=rf"set {re.escape(new)}$"):
        config(override)


# How verl's code would read a key that the table says nothing reads.
EXPRESSIONS = {
    r"(?<!\.optim)\.grad_clip\b(?! is not None)": "actor.grad_clip",
    r"(?:actor|actor_config|ref_config)\.use_torch_compile": "actor.use_torch_compile",
    r"\bfreeze_vision_tower\b": "actor.freeze_vision_tower",
    r"engine_config\.dtype\b": "fsdp_config.dtype",
    r"\buse_pf_ppo\b": "algorithm.use_pf_ppo",
    r"rollout_config\.do_sample|rollout\.do_sample": "rollout.do_sample",
    r"(?:config|rollout)\.repetition_penalty": "rollout.repetition_penalty",
    r"multi_turn\.enable\b": "rollout.multi_turn.enable",
    r"\bover_sample_rate\b": "rollout.over_sample_rate",
    r"trainer\.ray_wait_register_center_timeout": "trainer.ray_wait_register_center_timeout",
    r"migrate_legacy_reward_impl\(config\)": "custom_reward_function, reward_model",
    r"self\.truncation\b(?! =)": "data.truncation",
    r"trainer\.balance_batch": "trainer.balance_batch",
    r"\besi_redundant_time\b": "trainer.esi_redundant_time",
    r"\buse_prefix_grouper\b": "actor.use_prefix_grouper",
    r"actor\.(?:rollout_n|calculate_sum_pi_squared)\b": "actor.rollout_n",
    r"\b(?:use_inference_chat_template|tokenization_sanity_check_mode)\b": "rollout.multi_turn",
}
READERS = ("trainer/main_ppo.py", "trainer/ppo/v1", "workers/engine/fsdp", "workers/engine/base.py",
           "workers/engine_workers.py", "workers/utils", "experimental/agent_loop",
           "experimental/reward_loop/reward_manager", "trainer/ppo/core_algos.py",
           "trainer/ppo/utils.py", "trainer/ppo/reward.py", "utils/dataset/rl_dataset.py",
           "workers/rollout/llm_server.py", "workers/rollout/replica.py")  # fmt: skip


def test_the_installed_verl_never_reads_what_the_table_says_it_never_reads() -> None:
    spec = find_spec("verl")
    if spec is None or spec.origin is None:
        pytest.skip("verl is not installed")
    root = Path(spec.origin).parent
    files = [p for name in READERS for p in ([root / name] if name.endswith(".py") else
             (root / name).rglob("*.py")) if p.name != "ray_trainer.py"]  # fmt: skip
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    result = {
        f"{key}: {path.relative_to(root)}"
        for expression, key in EXPRESSIONS.items()
        for path, text in texts.items()
        if re.search(expression, text)
    }
    assert result == set()
