"""The line ``config``: what a config says, and who could have made it say that."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.checks import memory_and_disk
from engine.checks.check import Check, Subject
from engine.checks.config import check, check_unused
from engine.config.compose import effective
from engine.config.load import load_config
from tests.engine.checks.project import Project
from tests.paths import CONFIGS

CONFIG = CONFIGS / "grpo_tiny.yaml"
ACTOR = "actor_rollout_ref.actor"
MODEL = "actor_rollout_ref.model"
ROLLOUT = "actor_rollout_ref.rollout"


def tiny(*overrides: str) -> Check:
    config = effective(load_config(str(CONFIG), overrides, {}), Path("runs/x/attempt_1"))
    return check(Subject(config, {}, Path("runs")))


@pytest.mark.parametrize("estimator", ["remax", "gdpo", "optimal_token_baseline"])
def test_an_estimator_without_its_numbers_in_the_v1_trainer_is_refused(estimator: str) -> None:
    answer = tiny(f"algorithm.adv_estimator={estimator}")
    assert answer.status == "fail"
    assert f"algorithm.adv_estimator={estimator} needs" in answer.message
    assert answer.fix == "algorithm.adv_estimator=grpo"


@pytest.mark.parametrize("estimator", ["grpo", "rloo", "opo", "gpg", "grpo_passk"])
def test_an_estimator_that_the_v1_trainer_computes_is_taken(estimator: str) -> None:
    assert tiny(f"algorithm.adv_estimator={estimator}").status == "ok"


@pytest.mark.parametrize(
    ("override", "fix"),
    [
        (f"{ACTOR}.fsdp_config.forward_only=true", f"{ACTOR}.fsdp_config.forward_only=false"),
        (f"{ACTOR}.checkpoint.async_save=true", f"{ACTOR}.checkpoint.async_save=false"),
        (f"{ROLLOUT}.agent.default_agent_loop=tool_agnt", "default_agent_loop=tool_agent"),
        (f"{MODEL}.override_config.attn_implementation=sdp", "=sdpa"),
        (f"{ACTOR}.optim.optimizer_impl=no_such_package.optim", "optimizer_impl=torch.optim"),
        ("trainer.device=cuda", "trainer.device=cpu"),
        ("trainer.critic_warmup=10", "trainer.critic_warmup=0"),
        (f"{ROLLOUT}.tensor_model_parallel_size=2", "tensor_model_parallel_size=1"),
        ("trainer.checkpoint_callback_class=no_such_package.Saved", "callback_class=null"),
        (f"{ACTOR}.optim.optimizer=AdmW", "optim.optimizer=AdamW"),
        (f"{ROLLOUT}.checkpoint_engine.backend=nixxl", "checkpoint_engine.backend=nixl"),
        ("data.prompt_key=question", "data.prompt_key=prompt"),
        (f"{MODEL}.external_lib=no_such_package", "external_lib=null"),
        ("+ray_kwargs.ray_init.foo=1", "remove it"),
        ("trainer.project_name=mine/own", "trainer.project_name=mine-own"),
    ],
)
def test_a_value_that_ends_the_run_in_a_worker_is_refused(override: str, fix: str) -> None:
    answer = tiny(override, "trainer.logger=[console,wandb]")
    assert (answer.status, override.lstrip("+").partition("=")[0] in answer.message) == (
        "fail",
        True,
    )
    assert fix in (answer.fix or "")


@pytest.mark.parametrize(
    ("override", "close"),
    [("include_dashbord=false", "include_dashboard"), ("num_cpu=2", "num_cpus")],
)
def test_a_mistyped_argument_of_ray_init_is_told_the_right_one(override: str, close: str) -> None:
    answer = tiny(f"+ray_kwargs.ray_init.{override}")
    assert f"ray.init has no such argument; did you mean '{close}'?" in answer.message


def test_the_arguments_of_ray_init_are_taken() -> None:
    ray = "+ray_kwargs.ray_init"
    assert tiny(f"{ray}._system_config={{a: 1}}", f"{ray}.log_to_driver=false").status == "ok"


def test_a_learning_rate_that_nobody_chose_is_shown(tmp_path: Path) -> None:
    text = CONFIG.read_text()
    path = tmp_path / "try.yaml"
    path.write_text(text.replace("      lr: 2.0e-4\n", ""))
    config = effective(load_config(str(path), (), {}), tmp_path)
    message = check(Subject(config, {}, tmp_path)).message
    assert f"{ACTOR}.optim.lr=1e-06 is the default, not set in the config" in message
    assert "is the default" not in tiny().message


@pytest.mark.parametrize(
    "override",
    [
        f"{MODEL}.override_config.attn_implementation=kernels-community/flash-attn",
        f"{MODEL}.tokenizer_path=Qwen/Qwen3-8B",
        f"{ACTOR}.optim.optimizer=Adam",
        f"{ROLLOUT}.load_format=fastsafetensors",
        "trainer.project_name=mine/own",  # only W&B refuses it
        f"{ACTOR}.checkpoint.save_contents=[model,optimizer,extra,hf_model]",
    ],
)
def test_what_verl_can_take_is_taken(override: str) -> None:
    assert tiny(override).status == "ok"


@pytest.mark.parametrize(
    "key",
    [
        f"{MODEL}.tokenizer_path",
        f"{MODEL}.lora_adapter_path",
        f"{ROLLOUT}.agent.agent_loop_config_path",
        f"{ROLLOUT}.multi_turn.tool_config_path",
        "data.custom_cls.path",
    ],
)
def test_a_file_that_is_not_there_is_named_with_its_key(key: str) -> None:
    answer = tiny(f"{key}=/nowhere/file.yaml")
    assert answer.status == "fail"
    assert f"{key}=/nowhere/file.yaml does not exist" in answer.message


def test_a_key_that_is_given_twice_is_named_with_the_value_that_counts() -> None:
    answer = tiny(f"{ACTOR}.optim.lr=1e-5", f"+{ACTOR}.optim.lr=2e-5")
    key = f"{ACTOR}.optim.lr"
    assert answer.status == "warn"
    assert f"{key}=1e-5 has no effect: {key}=2e-5 overrides it" in answer.message


@pytest.mark.parametrize("place", ["{}", "{}/below"])
def test_checkpoints_do_not_go_where_a_file_is(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    answer = tiny(f"trainer.default_local_dir={place.format(tmp_path / 'file')}")
    assert (answer.status, "file is a file, not a folder" in answer.message) == ("fail", True)


@pytest.mark.parametrize(
    "override", ["critic.enable=true", "trainer.rollout_data_dir=/tmp/elsewhere"]
)
def test_what_a_run_would_do_in_vain_or_elsewhere_is_warned_of(override: str) -> None:
    answer = tiny(override, "trainer.logger=[console,wandb]")
    assert (answer.status, override in answer.message) == ("warn", True)


def test_a_checkpoint_without_the_optimizer_is_warned_of() -> None:
    answer = tiny(f"{ACTOR}.checkpoint.save_contents=[model]")
    assert (answer.status, "lacks extra, optimizer" in answer.message) == ("warn", True)


def answer(project: Project, name: str) -> Check:
    return check(Subject(project.config(name), {}, project.root / "runs"))


def test_a_config_that_somebody_else_could_have_written_fails(project: Project) -> None:
    path = project.config("sft").path
    assert "is writable by" not in answer(project, "sft").message
    path.chmod(0o666)
    result = answer(project, "sft")
    assert result.status == "fail" and f"{path} is writable by everybody" in result.message


def test_a_runs_folder_in_which_others_can_replace_runs_is_a_warning(project: Project) -> None:
    runs = project.root / "runs"
    runs.mkdir(exist_ok=True)
    runs.chmod(0o777)
    result = memory_and_disk.check_disk(Subject(project.config("sft"), {}, runs))
    assert result.status == "warn" and result.fix == f"chmod +t {runs}"
    runs.chmod(0o1777)
    assert memory_and_disk.check_disk(Subject(project.config("sft"), {}, runs)).status == "ok"


@pytest.mark.parametrize(
    ("name", "warned"),
    [("REWARD_LAMBDA_INF", True), ("REWARD_LAMBDA_INFO", False), ("JUDGE_MODEL_NAME", False)],
)
def test_a_misspelled_variable_is_warned_of(name: str, warned: bool) -> None:
    config = effective(load_config(str(CONFIG), [], {}), Path("runs/x/attempt_1"))
    answer = check_unused(Subject(config, {name: "0.0"}, Path("runs")))
    assert (answer.status == "warn") is warned
    assert (f"{name} is not read; did you mean REWARD_LAMBDA_INFO?" in answer.message) is warned
