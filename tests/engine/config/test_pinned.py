"""A run trains what it was launched with."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.config.frozen import manifest_config, pinned_config, training_fingerprint
from engine.config.load import Config, load_config
from engine.launch.launcher import manifest, plan
from tests.paths import CONFIGS

pytestmark = pytest.mark.long

SHIPPED = sorted(p for p in CONFIGS.glob("*.yaml") if "grubrics:" in p.read_text())


def load(path: Path | str, *overrides: str, **env: str) -> Config:
    return load_config(str(path), overrides, env)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_kept_config_has_every_value_of_the_launched_one(path: Path, tmp_path: Path) -> None:
    override = "grubrics.description=\"yes: 'b' # 3e-4 \\\\${c}\""
    launched = load(path, override, JUDGE_MAX_CONCURRENT="3")
    kept = tmp_path / "recipe.yaml"
    kept.write_text(pinned_config(manifest_config(launched, tmp_path)))
    trained = manifest_config(launched, tmp_path)
    values = {key: entry.value for key, entry in manifest_config(load(kept), tmp_path).items()}
    assert values == {key: entry.value for key, entry in trained.items()}


def test_the_trainer_reads_the_kept_config_and_no_variable(tmp_path: Path) -> None:
    launched = plan(load(CONFIGS / "grpo_tiny.yaml", "data.seed=3"), "try", tmp_path / "runs")
    (attempt,) = manifest(launched).attempts
    kept = str(tmp_path / "runs" / "try" / "recipe.yaml")
    assert attempt.argv[2:] == ("engine.train.grpo", "--config", kept, "--no-env")


@pytest.mark.parametrize(
    "override",
    [
        "supervision.stall_factor=9",
        "trainer.experiment_name=other",
        "trainer.logger=[console,wandb]",
        "trainer.save_freq=1",
        "trainer.resume_mode=auto",
        "judge.max_concurrent=2",
        "ray_kwargs.ray_init.num_cpus=4",
    ],
)
def test_what_shapes_no_weight_is_not_in_the_fingerprint(override: str) -> None:
    path = CONFIGS / "grpo_tiny.yaml"
    assert training_fingerprint(load(path, override)) == training_fingerprint(load(path))


@pytest.mark.parametrize(
    "override",
    [
        "actor_rollout_ref.actor.optim.lr=1e-5",
        "data.seed=7",
        "reward_config.lambda_len=0",
        "judge.temperature=0.5",
        "trainer.total_training_steps=7",
        "grubrics.device=cuda",
    ],
)
def test_what_shapes_the_weights_is_in_the_fingerprint(override: str) -> None:
    path = CONFIGS / "grpo_tiny.yaml"
    assert training_fingerprint(load(path, override)) != training_fingerprint(load(path))


def test_a_default_that_is_spelled_out_changes_nothing() -> None:
    path = CONFIGS / "sft_tiny.yaml"
    assert training_fingerprint(load(path, "training.seed=42")) == training_fingerprint(load(path))
