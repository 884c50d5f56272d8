"""``grubrics.preset``: an algorithm by one word, and what wins beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import UsageError
from engine.checks import trainer
from engine.checks.check import Subject
from engine.config.compose import effective, verl_config
from engine.config.keys import flatten, verl_defaults
from engine.config.load import Config, load_config
from engine.config.presets import presets
from engine.config.unread import unread
from tests.paths import ROOT

ACTOR = "actor_rollout_ref.actor"
CORRECTION = "algorithm.rollout_correction"
BUFFER = "reward.reward_kwargs.overlong_buffer_cfg"


def config(*overrides: str, name: str = "grpo_tiny") -> Config:
    return load_config(name, overrides, env={})


def from_preset(loaded: Config) -> dict[str, Any]:
    return {key: loaded.get(key) for key, origin in loaded.origins.items() if origin == "preset"}


GOLDEN: dict[str, dict[str, Any]] = {
    "dapo": {
        f"{ACTOR}.clip_ratio_low": 0.2,
        f"{ACTOR}.clip_ratio_high": 0.28,
        f"{ACTOR}.clip_ratio_c": 10.0,
        f"{ACTOR}.loss_agg_mode": "token-mean",
        f"{ACTOR}.use_kl_loss": False,
        "algorithm.use_kl_in_reward": False,
        "algorithm.adv_estimator": "grpo",
        "algorithm.filter_groups.enable": True,
        "algorithm.filter_groups.metric": "reward",
        "reward.reward_manager.name": "dapo",
        f"{BUFFER}.enable": True,
        f"{BUFFER}.len": 12,  # of 64 tokens
        f"{BUFFER}.penalty_factor": 1.0,
        f"{BUFFER}.log": True,
        "reward.reward_kwargs.max_resp_len": 64,
    },
    "gspo": {
        "algorithm.adv_estimator": "grpo",
        f"{ACTOR}.policy_loss.loss_mode": "gspo",
        f"{ACTOR}.clip_ratio_low": 0.0003,
        f"{ACTOR}.clip_ratio_high": 0.0004,
        f"{ACTOR}.clip_ratio_c": 10.0,
        f"{ACTOR}.loss_agg_mode": "seq-mean-token-mean",
    },
    "dr_grpo": {
        "algorithm.adv_estimator": "grpo",
        "algorithm.norm_adv_by_std_in_grpo": False,
        f"{ACTOR}.loss_agg_mode": "seq-mean-token-sum-norm",
        f"{ACTOR}.loss_scale_factor": 64,
        f"{ACTOR}.use_kl_loss": False,
        "algorithm.use_kl_in_reward": False,
    },
    "cispo": {f"{ACTOR}.policy_loss.loss_mode": "cispo"},
    "tis": {
        f"{CORRECTION}.rollout_is": "token",
        f"{CORRECTION}.rollout_is_threshold": 2.0,
        f"{CORRECTION}.rollout_rs": None,
        f"{CORRECTION}.bypass_mode": False,
        "actor_rollout_ref.rollout.calculate_log_probs": True,
    },
    "mis": {
        f"{CORRECTION}.rollout_is": "sequence",
        f"{CORRECTION}.rollout_is_threshold": 2.0,
        f"{CORRECTION}.rollout_rs": "seq_sum_k1",
        f"{CORRECTION}.rollout_rs_threshold": "0.5_2.0",
        f"{CORRECTION}.bypass_mode": False,
        "actor_rollout_ref.rollout.calculate_log_probs": True,
    },
}


@pytest.mark.parametrize("name", GOLDEN)
def test_a_preset_sets_the_published_values(name: str) -> None:
    assert from_preset(config(f"grubrics.preset={name}")) == GOLDEN[name]


@pytest.mark.parametrize("name", presets())
def test_every_preset_composes_and_has_an_effect(name: str, tmp_path: Path) -> None:
    loaded = config(f"grubrics.preset={name}")
    composed = dict(flatten(verl_config(loaded, tmp_path)))
    defaults = verl_defaults()
    assert any(composed[key] != defaults.get(key) for key in from_preset(loaded))
    assert trainer.check(Subject(effective(loaded, tmp_path), {}, tmp_path)).status == "ok"
    assert unread(loaded) == []


@pytest.mark.parametrize("name", presets())
def test_every_preset_is_documented_with_its_meaning(name: str) -> None:
    assert f"| `{name}` | {presets()[name].summary} |" in (ROOT / "docs" / "verl.md").read_text()


def test_a_value_beside_the_preset_wins() -> None:
    loaded = config("grubrics.preset=dapo", f"{ACTOR}.clip_ratio_high=0.25")
    assert loaded.get(f"{ACTOR}.clip_ratio_high") == 0.25
    assert loaded.origins[f"{ACTOR}.clip_ratio_high"] == "cli"


def test_a_preset_in_the_file_loses_against_the_other_keys_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "grubrics: {kind: grpo, preset: gspo}\n"
        "actor_rollout_ref: {model: {path: m}, actor: {clip_ratio_high: 0.1}}\n"
    )
    loaded = config(name=str(file))
    assert loaded.get(f"{ACTOR}.clip_ratio_high") == 0.1
    assert loaded.get(f"{ACTOR}.clip_ratio_low") == 0.0003
    assert loaded.changes == ()


def test_a_preset_of_the_command_line_wins_over_the_file_and_is_listed_as_a_change() -> None:
    loaded = config("grubrics.preset=rloo")
    changes = {change.key: (change.before, change.after) for change in loaded.changes}
    assert changes == {
        "algorithm.adv_estimator": ("grpo", "rloo"),
        "grubrics.preset": (None, "rloo"),
    }


def test_a_value_that_the_preset_does_not_change_is_no_change() -> None:
    changed = {change.key for change in config("grubrics.preset=gspo").changes}
    assert f"{ACTOR}.policy_loss.loss_mode" in changed
    assert "algorithm.adv_estimator" not in changed


def test_the_preflight_names_the_preset_and_what_is_set_otherwise(tmp_path: Path) -> None:
    loaded = config("grubrics.preset=gspo", f"{ACTOR}.clip_ratio_high=0.25")
    message = trainer.check(Subject(effective(loaded, tmp_path), {}, tmp_path)).message
    assert "gspo, with grubrics.preset" in message
    assert f"{ACTOR}.clip_ratio_high=0.25 in place of its 0.0004" in message


def test_null_on_the_command_line_removes_the_preset_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("grubrics: {kind: grpo, preset: gspo}\nactor_rollout_ref: {model: {path: m}}\n")
    assert from_preset(config("grubrics.preset=null", name=str(file))) == {}


def test_presets_that_fit_together_are_combined() -> None:
    loaded = config("grubrics.preset=[dapo,icepop]")
    assert loaded.get(f"{CORRECTION}.rollout_is_threshold") == "0.5_5.0"
    assert loaded.get("algorithm.filter_groups.enable") is True


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("dappo", "grubrics.preset 'dappo' does not exist; did you mean 'dapo'?"),
        ("3", "grubrics.preset '3' does not exist; known: "),
        ("[tis,mis]", f"'tis' and 'mis' set {CORRECTION}.rollout_is to different values"),
    ],
)
def test_what_is_no_preset_is_refused(value: str, message: str) -> None:
    with pytest.raises(UsageError) as refusal:
        config(f"grubrics.preset={value}")
    assert message in str(refusal.value)


def test_sft_has_no_presets() -> None:
    with pytest.raises(UsageError, match="presets are for GRPO, not for sft"):
        config("grubrics.preset=gspo", name="sft_tiny")


@pytest.mark.parametrize("text", ["2", "0.5_5.0"])
def test_a_threshold_is_a_number_or_a_range(text: str) -> None:
    config(f"{CORRECTION}.rollout_is_threshold={text}")


@pytest.mark.parametrize("text", ["0", "5.0_2.0", "a_b", "1.0_2.0_3.0", "-1.0_2.0"])
def test_another_threshold_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="above 0, or two such numbers"):
        config(f"{CORRECTION}.rollout_is_threshold={text}")
