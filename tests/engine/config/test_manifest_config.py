"""The manifest holds what the trainer gets, and which of it nobody set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from engine.config.compose import verl_config
from engine.config.frozen import pinned_config
from engine.config.keys import flatten
from engine.config.load import load_config
from engine.launch.launcher import manifest, plan
from engine.report.differences import config_differences, derived_keys
from engine.run.manifest import FullManifest, Setting
from tests.paths import CONFIGS

pytestmark = pytest.mark.long


def written(root: Path, config: str, *overrides: str, name: str = "try") -> FullManifest:
    loaded = load_config(str(CONFIGS / f"{config}.yaml"), overrides, {})
    return manifest(plan(loaded, name, root))


def test_a_grpo_manifest_is_the_configuration_that_verl_is_given(tmp_path: Path) -> None:
    config = load_config(str(CONFIGS / "grpo_tiny.yaml"), (), {})
    tree = verl_config(config, tmp_path.resolve() / "try" / "attempt_1")
    given: Any = OmegaConf.to_container(OmegaConf.create(tree), resolve=True)
    assert isinstance(given, dict)
    assert written(tmp_path, "grpo_tiny").values == dict(flatten(given))


def test_what_a_cpu_brings_with_it_is_implied(tmp_path: Path) -> None:
    config = written(tmp_path, "grpo_tiny").config
    for key, value in {
        "trainer.device": "cpu",
        "actor_rollout_ref.actor.strategy": "fsdp2",
        "actor_rollout_ref.rollout.name": "hf",
        "actor_rollout_ref.rollout.seed": 1,
        "actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype": "fp32",
        "reward.reward_manager.name": "RecordingRewardManager",
        "actor_rollout_ref.rollout.trace.experiment_name": "grpo-tiny",
    }.items():
        assert config[key] == Setting(value, "implied"), key


def test_the_seeds_are_those_that_were_used(tmp_path: Path) -> None:
    seeds = written(tmp_path, "grpo_tiny", "grubrics.seed=7").seeds
    assert seeds["actor_rollout_ref.rollout.seed"] == 7


def test_an_sft_manifest_says_what_verls_trainer_gets(tmp_path: Path) -> None:
    overrides = ("lora.r=4", "training.learning_rate=0.5", "training.bf16=false")
    config = written(tmp_path, "sft_tiny", *overrides).config
    for key, value in {
        "verl.engine.mixed_precision.param_dtype": "fp32",
        "verl.engine.strategy": "fsdp2",
        "verl.trainer.device": "cpu",
        "verl.optim.lr": 0.5,
        "verl.model.lora_rank": 4,
    }.items():
        assert config[key] == Setting(value, "implied"), key


def test_implied_values_are_worked_out_again_and_not_kept_as_if_somebody_set_them(
    tmp_path: Path,
) -> None:
    for name in ("grpo_tiny", "sft_tiny"):
        kept = tmp_path / f"{name}.yaml"
        kept.write_text(pinned_config(written(tmp_path, name).config))
        config = load_config(str(kept), (), {})
        assert not config.is_chosen("trainer.device")
        assert not any(key.startswith("verl.") for key in config.values)


def test_runs_that_differ_by_name_alone_differ_in_nothing_else(tmp_path: Path) -> None:
    one = written(tmp_path, "grpo_tiny", "trainer.experiment_name=a", name="one")
    other = written(tmp_path, "grpo_tiny", "trainer.experiment_name=b", name="other")
    named = {difference.key for difference in config_differences([one, other])}
    assert named == {"experiment_name", "default_local_dir"}


def test_what_follows_is_known_of_a_manifest(tmp_path: Path) -> None:
    derived = derived_keys(written(tmp_path, "grpo_tiny").config)
    assert "actor_rollout_ref.rollout.trace.experiment_name" in derived
    assert "trainer.rollout_data_dir" in derived
    assert "actor_rollout_ref.actor.optim.lr" not in derived
