"""A key that does not exist leads to the one that was meant."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.base.errors import UsageError
from engine.config.keys import with_whole_key
from engine.config.load import Change, config_keys, load_config, short_keys
from tests.paths import CONFIGS

pytestmark = pytest.mark.long


@pytest.mark.parametrize(
    ("config", "key", "meant"),
    [
        ("grpo_tiny", "actor.optm.lr", "actor_rollout_ref.actor.optim.lr"),
        ("grpo_tiny", "learning_rate", "actor_rollout_ref.actor.optim.lr"),
        ("grpo_tiny", "batch_size", "data.train_batch_size"),
        ("grpo_tiny", "trainer.max_steps", "trainer.total_training_steps"),
        ("sft_tiny", "lr", "training.learning_rate"),
        ("sft_tiny", "training.learning_rte", "training.learning_rate"),
    ],
)
def test_the_key_that_was_meant_is_suggested(config: str, key: str, meant: str) -> None:
    told = rf"unknown key '{key}' in {key}=1; did you mean '{meant}'\?"
    with pytest.raises(UsageError, match=told):
        load_config(str(CONFIGS / f"{config}.yaml"), [f"{key}=1"], {})


@pytest.mark.parametrize(
    ("typed", "key"),
    [
        ("actor.optim.lr", "actor_rollout_ref.actor.optim.lr"),
        ("lr", "actor_rollout_ref.actor.optim.lr"),
        ("rollout.n", "actor_rollout_ref.rollout.n"),
        ("kl_loss_coef", "actor_rollout_ref.actor.kl_loss_coef"),
        ("experiment_name", "trainer.experiment_name"),
    ],
)
def test_the_end_of_a_key_is_enough_where_it_names_one_key(typed: str, key: str) -> None:
    """Of several keys with this end, the only one that the file sets, or that is not a critic's."""
    config = load_config(str(CONFIGS / "grpo_tiny.yaml"), [f"{typed}=1"], {})
    assert config.overrides == (f"{key}=1",)
    assert [change.key for change in config.changes] == [key]


def test_the_end_of_several_keys_is_refused_with_their_names() -> None:
    with pytest.raises(
        UsageError, match=r"'seed' is the end of several.* did you mean 'grubrics\.seed'"
    ):
        load_config(str(CONFIGS / "grpo_tiny.yaml"), ["seed=1"], {})


@pytest.mark.parametrize(
    ("key", "value", "end"),
    [
        ("actor_rollout_ref.actor.optim.lr", "1e-4", "lr"),
        # The file sets this one of several.
        ("trainer.total_training_steps", "6", "total_training_steps"),
        ("trainer.nnodes", "2", "trainer.nnodes"),
        ("reward.num_workers", "4", "reward.num_workers"),
        ("grubrics.seed", "5", "grubrics.seed"),
        ("critic.optim.lr", "1e-4", "critic.optim.lr"),
    ],
)
def test_an_override_is_listed_by_an_end_that_a_launch_accepts(
    key: str, value: str, end: str
) -> None:
    config = str(CONFIGS / "grpo_tiny.yaml")
    loaded = load_config(config, [f"{key}={value}"], {})
    [change] = loaded.changes
    assert short_keys(loaded) == {key: end}
    assert load_config(config, [f"{end}={value}"], {}).changes == (change,)


def test_every_override_is_listed_by_an_end_that_means_it() -> None:
    config = str(CONFIGS / "grpo_tiny.yaml")
    chosen, defaults = config_keys(config)
    loaded = load_config(config, [], {})
    changes = tuple(Change(key, value, 1, "cli") for key, value in defaults.items())
    for change in changes:
        [(key, end)] = short_keys(replace(loaded, changes=(change,))).items()
        assert with_whole_key(f"{end}=1", chosen, defaults) == f"{key}=1"


def test_an_unknown_key_is_blamed_on_the_command_line_without_a_text_value() -> None:
    with pytest.raises(UsageError) as caught:
        load_config(str(CONFIGS / "grpo_tiny.yaml"), ["judge.tken=sesame"], {})
    message = str(caught.value)
    assert message.startswith("CLI override: unknown key 'judge.tken'")
    assert "grpo_tiny.yaml" not in message and "sesame" not in message


def test_a_wrong_value_of_the_environment_is_blamed_on_its_variable() -> None:
    with pytest.raises(UsageError, match=r"^environment variable REWARD_LAMBDA_INFO: .*='abc'"):
        load_config(str(CONFIGS / "grpo_tiny.yaml"), [], {"REWARD_LAMBDA_INFO": "abc"})


@pytest.mark.parametrize(
    "override",
    [
        "reward.custom_reward_function.reward_kwargs.k=1",
        "+reward.custom_reward_function.reward_kwargs.k=1",
        "+reward.reward_kwargs.overlong_buffer_cfg.len=4",
        "reward.reward_kwargs.max_resp_len=64",
        "algorithm.gdpo_reward_keys=[a,b]",
        "+algorithm.gdpo_reward_weights=[1,2]",
    ],
)
def test_keys_that_verl_reads_though_its_yaml_does_not_list_them_are_taken(override: str) -> None:
    config = load_config(str(CONFIGS / "grpo_tiny.yaml"), [override], {})
    assert config.is_chosen(override.partition("=")[0].lstrip("+"))
