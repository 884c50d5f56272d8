"""What the list of configuration keys says about a key: verl's comments, our docstrings, ranges."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.config.key_docs import KeyDoc, describe_key
from engine.config.keys import verl_comments, verl_defaults
from engine.run.kinds import GRPO, SFT
from engine.train import snapshot_keys
from engine.train.snapshot_keys import key_comments


def test_a_key_of_verl_means_what_its_comment_says_and_takes_what_a_launch_checks() -> None:
    doc = describe_key("algorithm.gamma", GRPO)
    assert doc == KeyDoc("Discount factor for future rewards", "at least 0 and at most 1")


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("actor_rollout_ref.actor.loss_agg_mode", "one of token-mean, "),
        ("trainer.save_freq", "an integer of at least 1, or -1 (never)"),
        ("actor_rollout_ref.actor.optim.betas", "two numbers of at least 0 and below 1"),
        ("actor_rollout_ref.actor.use_kl_loss", "true or false"),
        ("actor_rollout_ref.rollout.max_model_len", "an integer of at least 1, or null"),
        ("grubrics.device", "one of cpu, cuda"),
        ("grubrics.max_failed_share", "at least 0 and at most 1"),
    ],
)
def test_the_values_come_from_the_check_the_schema_or_the_type(key: str, values: str) -> None:
    assert describe_key(key, GRPO).values.startswith(values)


def test_our_keys_mean_what_the_text_below_the_field_says() -> None:
    assert describe_key("judge.timeout_s", GRPO).meaning.startswith("Seconds of one call")
    assert describe_key("training.max_steps", SFT).meaning.startswith("Stop after this many steps")


def test_the_same_name_means_something_else_in_another_kind() -> None:
    key = "model.trust_remote_code"
    assert describe_key(key, SFT).meaning
    assert describe_key(key, GRPO) == KeyDoc()


def test_nothing_is_invented_for_a_key_that_nobody_described() -> None:
    assert "actor_rollout_ref.model.mtp.method" not in verl_comments()
    assert describe_key("actor_rollout_ref.model.mtp.method", GRPO).meaning == ""
    assert describe_key("ray_kwargs.ray_init.address", GRPO) == KeyDoc()


class TestCommentsOfYamlFiles:
    def test_a_comment_belongs_to_the_field_below_it_and_its_section(self, tmp_path: Path) -> None:
        (tmp_path / "t.yaml").write_text(
            "# of the section\nouter:\n\n  # First line\n  # and second\n  inner: 1\n\n  plain: 2\n"
        )
        assert key_comments(tmp_path, "t") == {
            "outer": "of the section",
            "outer.inner": "First line and second",
        }

    def test_a_file_that_hydra_merges_later_wins(self, tmp_path: Path) -> None:
        (tmp_path / "optim").mkdir()
        (tmp_path / "optim/fsdp.yaml").write_text("# the group\nlr: 1\n\n# kept\neps: 2\n")
        main = "defaults:\n  - optim@actor.optim: fsdp\n  - _self_\n\nactor:\n\n  optim:\n\n"
        (tmp_path / "t.yaml").write_text(f"{main}    # the file\n    lr: 2\n")
        assert key_comments(tmp_path, "t") == {
            "actor.optim.lr": "the file",
            "actor.optim.eps": "kept",
        }

    def test_the_snapshot_has_the_comments_of_the_installed_verl(self) -> None:
        try:
            installed = key_comments(snapshot_keys.verl_config_dir())
        except SystemExit:
            pytest.skip("verl is not installed")
        leaves = verl_defaults()
        assert verl_comments() == {key: installed[key] for key in leaves if key in installed}
