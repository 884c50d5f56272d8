"""Values that verl would refuse late, or train with and spoil the run, are refused at once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.config.keys import verl_choices
from engine.config.load import Config, load_config
from engine.config.places import data_files
from engine.train import snapshot_keys
from tests.paths import CONFIGS

ACTOR = "actor_rollout_ref.actor"
ROLLOUT = "actor_rollout_ref.rollout"


def load(*overrides: str, config: str = "grpo_tiny") -> Config:
    return load_config(str(CONFIGS / f"{config}.yaml"), overrides, {})


@pytest.mark.row("H01")
@pytest.mark.parametrize(
    ("override", "expected"),
    [
        (f"{ACTOR}.optim.lr=-1", "at least 0"),
        (f"{ACTOR}.optim.weight_decay=-5", "at least 0"),
        (f"{ACTOR}.optim.clip_grad=0", "above 0"),
        (f"{ACTOR}.optim.betas=[0.9,1.0]", "two numbers of at least 0 and below 1"),
        (f"{ACTOR}.optim.lr_scheduler_type=wsd", "one of constant, cosine"),
        (f"{ACTOR}.clip_ratio=-3", "at least 0"),
        (f"{ACTOR}.clip_ratio_high=-0.1", "at least 0"),
        (f"{ACTOR}.clip_ratio_c=0.5", "above 1"),
        (f"{ACTOR}.grad_clip=-1", "above 0"),
        (f"{ACTOR}.kl_loss_coef=-1", "at least 0"),
        (f"{ACTOR}.kl_loss_type=low_var_k", "did you mean 'low_var_kl'?"),
        (f"{ACTOR}.loss_agg_mode=token-meen", "did you mean 'token-mean'?"),
        (f"{ACTOR}.policy_loss.loss_mode=gsp", "did you mean 'gspo'?"),
        (f"{ACTOR}.strategy=megatron", "one of fsdp, fsdp2, fsdp_turbo"),
        (f"{ACTOR}.fsdp_config.model_dtype=fp8", "one of fp32"),
        (f"{ROLLOUT}.top_p=5", "above 0 and at most 1"),
        (f"{ROLLOUT}.val_kwargs.top_p=0", "above 0 and at most 1"),
        (f"{ROLLOUT}.temperature=-0.5", "at least 0"),
        (f"{ROLLOUT}.n=0", "an integer of at least 1"),
        (f"{ROLLOUT}.gpu_memory_utilization=1.5", "above 0 and at most 1"),
        ("algorithm.adv_estimator=grpoo", "did you mean 'grpo'?"),
        ("algorithm.adv_estimator=GRPO", "did you mean 'grpo'?"),
        ("algorithm.kl_penalty=full", "one of kl"),
        ("algorithm.gamma=1.5", "at least 0 and at most 1"),
        ("data.truncation=middleish", "did you mean 'middle'?"),
        ("data.train_batch_size=0", "an integer of at least 1"),
        ("trainer.logger=[consol]", "did you mean 'console'?"),
        (f"{ROLLOUT}.mode=sync", "did you mean 'async'?"),
        (f"{ROLLOUT}.load_format=saftensors", "did you mean 'safetensors'?"),
        ("algorithm.filter_groups.max_inflight_gen_batches=0", "an integer of at least 1"),
        ("trainer.v1.sampler.max_off_policy_threshold=0", "an integer of at least 1"),
        ("trainer.v1.sampler.max_off_policy_strategy=evict", "one of drop, wait"),
        ("trainer.resume_mode=never", "one of auto, disable, resume_path"),
        ("trainer.resume_mode=atuo", "did you mean 'auto'?"),
        ("trainer.test_freq=0", "an integer of at least 1, or -1 (never)"),
        (f"{ACTOR}.optim.lr=.inf", "a number"),
        (f"{ACTOR}.entropy_coeff=.nan", "a number"),
        (f"{ROLLOUT}.temperature=.inf", "a number"),
        (f"{ACTOR}.optim.lr=null", "a number"),
        (f"{ROLLOUT}.n=null", "a number"),
        (f"{ACTOR}.use_kl_loss=null", "true or false"),
        ("data.train_batch_size=null", "an integer"),
        ("data.max_prompt_length=null", "an integer"),
        ("trainer.save_freq=null", "an integer"),
        ("trainer.experiment_name=null", "a text"),
        ("algorithm.adv_estimator=null", "a text"),
        ("actor_rollout_ref.model.path=", "a text"),
        ("actor_rollout_ref.model.override_config=sdpa", "a mapping"),
        ("data.apply_chat_template_kwargs=[enable_thinking]", "a mapping"),
        (f"{ACTOR}.optim.override_optimizer_config=3", "a mapping or null"),
        ("global_profiler.steps=3", "a list of steps or null"),
        ("global_profiler.tool=nsyss", "did you mean 'nsys'?"),
        (f"{ROLLOUT}.dtype=fp64", "one of auto, half"),
        (f"{ROLLOUT}.dtype=BFLOAT16", "did you mean 'bfloat16'?"),
        (f"{ACTOR}.checkpoint.save_contents=[weights]", "one of model, optimizer"),
        (f"{ACTOR}.checkpoint.save_contents=model", "a list, [model]"),
        (f"{ACTOR}.checkpoint.load_contents=[modl]", "did you mean 'model'?"),
        ("transfer_queue.backend.storage_backend=simplestorage", "did you mean 'SimpleStorage'?"),
        ("algorithm.rollout_correction.rollout_rs=zzz", "one of token_k1"),
        ("algorithm.rollout_correction.rollout_rs='token_k1,seq_max_k1'", "one of token_k1"),
        ("algorithm.rollout_correction.rollout_is_threshold=-2", "above 0"),
        ("data.seed=-1", "at least 0"),
        ("grubrics.seed=99999999999999999999", "at most"),
        ("trainer.v1.trainer_mode=async", "one of colocate_async, separate_async, sync"),
    ],
)
def test_a_value_that_verl_cannot_take_is_refused_with_what_it_can(
    override: str, expected: str
) -> None:
    key = re.escape(override.partition("=")[0])
    with pytest.raises(UsageError, match=rf"{key}=.* must be .*{re.escape(expected)}"):
        load(override)


@pytest.mark.parametrize(
    "override",
    ["training.max_grad_norm=-1", "training.weight_decay=-5", "training.max_steps=0",
     "training.save_steps=0", "lora.alpha=-1", "training.lr_scheduler_type=wsd"],
)  # fmt: skip
def test_sft_values_have_limits_too(override: str) -> None:
    with pytest.raises(UsageError, match=re.escape(override.partition("=")[0])):
        load(override, config="sft_tiny")


@pytest.mark.row("H21")
def test_sft_has_no_fp16_which_would_need_a_scaler_of_gradients() -> None:
    with pytest.raises(UsageError, match=r"training\.fp16.*did you mean 'training\.bf16'"):
        load("training.fp16=true", config="sft_tiny")


@pytest.mark.parametrize(
    "override",
    [
        f"{ACTOR}.optim.lr=0",
        f"{ACTOR}.kl_loss_type=k3+",
        f"{ACTOR}.clip_ratio_low=null",
        f"{ROLLOUT}.top_k=-1",
        "trainer.test_freq=-1",
        "trainer.logger=console",
        "data.val_max_samples=-1",
        "algorithm.adv_estimator=rloo",
        "algorithm.rollout_correction.rollout_rs='token_k1, seq_max_k2'",
        "actor_rollout_ref.model.override_config={attn_implementation: eager}",
        "actor_rollout_ref.model.override_config={}",
        "trainer.v1.sampler.max_off_policy_threshold=null",
        "data.seed=null",
    ],
)
def test_what_verl_takes_is_taken(override: str) -> None:
    assert load(override).is_chosen(override.partition("=")[0])


def test_the_class_that_verl_makes_of_a_section_is_no_setting() -> None:
    with pytest.raises(UsageError, match=r"optim\._target_ is the class .*; remove it"):
        load(f"{ACTOR}.optim._target_=os.system")


def test_a_bad_value_in_the_file_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    text = (CONFIGS / "grpo_tiny.yaml").read_text().replace("temperature: 1.0", "temperature: -1")
    path.write_text(text)
    with pytest.raises(UsageError, match=rf"^{path}: {ROLLOUT}\.temperature=-1 must be"):
        load_config(str(path), (), {})


@pytest.mark.row("V18", "A05")
def test_lists_are_taken_where_verl_takes_them(tmp_path: Path) -> None:
    config = load("data.train_files=[a.parquet,b.parquet]", "data.val_files=[c.parquet]")
    assert data_files(config) == [Path("a.parquet"), Path("b.parquet"), Path("c.parquet")]
    modules = "actor_rollout_ref.model.target_modules"
    assert load(f"{modules}=[q_proj,v_proj]").get(modules) == ["q_proj", "v_proj"]
    sft = load("lora.target_modules=[q_proj]", config="sft_tiny")
    assert sft.get("lora.target_modules") == ["q_proj"]


@pytest.mark.row("V18")
def test_every_config_names_its_own_data() -> None:
    sft = load("data.train_file=parquet_sft/train.parquet", config="sft_tiny")
    grpo = load("data.train_files=parquet/train.parquet")
    assert data_files(sft) == [Path("parquet_sft/train.parquet")]
    assert data_files(grpo)[0] == Path("parquet/train.parquet")


@pytest.mark.parametrize("value", ["[]", "[1,2]", "[[a]]"])
def test_a_list_of_anything_but_texts_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match=r"data\.train_files"):
        load(f"data.train_files={value}")


def test_the_choices_are_those_of_the_installed_verl() -> None:
    try:
        installed = snapshot_keys.choices(snapshot_keys.verl_config_dir().parents[1])
    except SystemExit:
        pytest.skip("verl is not installed")
    assert verl_choices() == installed
