"""From a GRPO config to verl's configuration."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from engine.config.compose import last_step, verl_config, with_file_logger
from engine.config.load import load_config
from tests.paths import ROOT


def composed(name: str, attempt: Path, *overrides: str) -> dict[str, Any]:
    config = load_config(str(ROOT / "configs" / f"{name}.yaml"), overrides, env={})
    return verl_config(config, attempt)


def test_a_cpu_config_gets_what_a_cpu_needs(tmp_path: Path) -> None:
    config = composed("grpo_tiny", tmp_path)
    assert config["trainer"]["device"] == "cpu"
    assert config["trainer"]["n_gpus_per_node"] == 1
    assert config["actor_rollout_ref"]["rollout"]["name"] == "hf"
    assert config["actor_rollout_ref"]["actor"]["strategy"] == "fsdp2"
    assert config["ray_kwargs"]["ray_init"]["num_gpus"] == 1


def test_what_a_config_sets_itself_is_never_changed(tmp_path: Path) -> None:
    config = composed("grpo_tiny", tmp_path, "reward.num_workers=3", "trainer.n_gpus_per_node=2")
    assert config["reward"]["num_workers"] == 3
    assert config["ray_kwargs"]["ray_init"]["num_gpus"] == 2


def test_the_rollout_server_knows_the_seed_and_how_many_rollouts_a_step_has(tmp_path: Path) -> None:
    rollout = composed("grpo_tiny", tmp_path, "grubrics.seed=7")["actor_rollout_ref"]["rollout"]
    assert rollout["seed"] == 7
    assert rollout["engine_kwargs"]["hf"]["rollouts_per_step"] == 4 * 8


def test_of_several_rollout_servers_none_knows_its_share(tmp_path: Path) -> None:
    rollout = composed("grpo_tiny", tmp_path, "trainer.n_gpus_per_node=2")["actor_rollout_ref"]
    assert rollout["rollout"]["engine_kwargs"]["hf"]["rollouts_per_step"] is None


def sampler(attempt: Path, *overrides: str) -> dict[str, Any]:
    chosen: dict[str, Any] = composed("grpo_tiny", attempt, *overrides)["trainer"]["v1"]["sampler"]
    return chosen


def test_the_sampler_is_told_what_verl_tells_only_its_own(tmp_path: Path) -> None:
    given = sampler(
        tmp_path,
        "algorithm.filter_groups.enable=true",
        "algorithm.filter_groups.metric=acc",
        "trainer.v1.sampler.sync_refill_failed_groups=true",
    )["sampler_kwargs"]
    assert (given["filter_groups_metric"], given["sync_refill_failed_groups"]) == ("acc", True)
    assert given["train_batch_size"] == 4
    assert sampler(tmp_path)["sampler_kwargs"]["filter_groups_metric"] is None


def test_a_step_replaces_ten_batches_or_what_the_config_says(tmp_path: Path) -> None:
    def bound(*overrides: str) -> int:
        return int(sampler(tmp_path, *overrides)["sampler_kwargs"]["max_refill_batches"])

    dapo = "algorithm.filter_groups.max_num_gen_batches=3"
    assert bound() == bound(dapo) == 10
    assert bound("grubrics.max_refill_batches=4") == 4
    assert bound("algorithm.filter_groups.enable=true", dapo) == 2


@pytest.mark.parametrize("mode", ["colocate_async", "separate_async"])
def test_an_asynchronous_trainer_gets_the_sampler_that_knows_staleness(
    mode: str, tmp_path: Path
) -> None:
    chosen = sampler(tmp_path, f"trainer.v1.trainer_mode={mode}")["custom_sampler"]
    assert chosen["name"] == "WatchfulReplayBufferAsync"


@pytest.mark.parametrize(
    "key", ["algorithm.filter_groups.enable", "trainer.v1.sampler.sync_refill_failed_groups"]
)
def test_a_step_that_may_refill_has_no_number_of_rollouts(key: str, tmp_path: Path) -> None:
    rollout = composed("grpo_tiny", tmp_path, f"{key}=true")["actor_rollout_ref"]["rollout"]
    assert rollout["engine_kwargs"]["hf"]["rollouts_per_step"] is None


def test_a_gpu_config_keeps_its_engine(tmp_path: Path) -> None:
    config = composed("verl_grpo", tmp_path)
    assert config["trainer"]["device"] == "cuda"
    assert config["actor_rollout_ref"]["rollout"]["name"] == "vllm"


def test_dumps_go_into_the_attempt(tmp_path: Path) -> None:
    trainer = composed("grpo_tiny", tmp_path)["trainer"]
    assert trainer["rollout_data_dir"] == str(tmp_path / "rollouts")
    assert trainer["validation_data_dir"] == str(tmp_path / "validation")


def test_references_between_keys_are_resolved(tmp_path: Path) -> None:
    directory = composed("verl_grpo", tmp_path)["trainer"]["default_local_dir"]
    assert directory == "checkpoints/grubrics-transfer/healthbench-grpo"


def test_our_sections_reach_the_reward_workers(tmp_path: Path) -> None:
    config = composed("grpo_tiny", tmp_path, "reward_config.lambda_info=0")
    assert config["reward_config"]["lambda_info"] == 0
    assert config["judge"]["provider"] == "offline"


@pytest.mark.parametrize("before", [[], ["trainer.val_before_train=false"]])
def test_a_run_that_only_validates_never_trains(before: list[str], tmp_path: Path) -> None:
    """verl looks at ``val_only`` only while it validates before training."""
    trainer = composed("grpo_tiny", tmp_path, "trainer.val_only=true", *before)["trainer"]
    assert trainer["val_before_train"] is True


@pytest.mark.parametrize("given", ["console", ["console"], ["console", "file"]])
def test_the_file_logger_is_always_on_and_only_once(given: str | list[str]) -> None:
    assert with_file_logger(given) == ["console", "file"]


def test_the_last_step_is_the_configured_one(tmp_path: Path) -> None:
    assert last_step(composed("grpo_tiny", tmp_path, "trainer.total_training_steps=7")) == 7


@pytest.mark.trainer
@pytest.mark.parametrize("name", ["grpo_tiny", "verl_grpo_debug"])
def test_verl_accepts_the_shipped_configs(name: str, tmp_path: Path) -> None:
    from verl.utils.config import validate_config

    config = OmegaConf.create(composed(name, tmp_path))
    validate_config(config, use_reference_policy=False, use_critic=False)


@pytest.mark.trainer
def test_verl_accepts_the_production_batch_sizes(tmp_path: Path) -> None:
    from verl.utils.config import omega_conf_to_dataclass

    config = OmegaConf.create(composed("verl_grpo", tmp_path))
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    actor.validate(1, config.data.train_batch_size, config.actor_rollout_ref.model)


def test_composing_leaves_the_config_as_it_is() -> None:
    config = load_config(str(ROOT / "configs" / "grpo_tiny.yaml"), env={})
    before = copy.deepcopy(dict(config.values))
    verl_config(config, Path("attempt"))
    assert config.values == before
