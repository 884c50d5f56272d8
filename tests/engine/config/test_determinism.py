"""The values and variables of a deterministic run."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.config.compose import deterministic_variables, effective
from engine.config.load import Config, load_config
from engine.config.sft_compose import sft_values
from tests.paths import CONFIGS

ON = "grubrics.deterministic=true"
ENGINES = ("actor_rollout_ref.actor.fsdp_config", "actor_rollout_ref.ref.fsdp_config")


def config(name: str, *overrides: str) -> Config:
    return load_config(str(CONFIGS / f"{name}.yaml"), overrides, {})


def test_all_that_draws_in_grpo_has_the_seed_of_the_run(tmp_path: Path) -> None:
    values = effective(config("grpo_tiny", ON, "grubrics.seed=7"), tmp_path).values
    assert {values[f"{engine}.seed"] for engine in ENGINES} == {7}
    assert values["actor_rollout_ref.actor.data_loader_seed"] == 7
    assert all(values[f"{engine}.full_determinism"] for engine in ENGINES)


def test_a_seed_that_is_set_stays(tmp_path: Path) -> None:
    chosen = config("grpo_tiny", ON, "grubrics.seed=7", "data.seed=3")
    assert effective(chosen, tmp_path).values["data.seed"] == 3


@pytest.mark.parametrize("value", ["true", "false"])
def test_sft_hands_the_flag_to_verl(tmp_path: Path, value: str) -> None:
    values = sft_values(config("sft_tiny", f"grubrics.deterministic={value}"), tmp_path)
    assert values["engine.full_determinism"] is (value == "true")


def test_the_variables_have_the_seed_and_the_threads() -> None:
    variables = deterministic_variables(config("sft_tiny", ON, "training.seed=9"), {})
    assert (variables["PYTHONHASHSEED"], variables["OMP_NUM_THREADS"]) == ("9", "1")


def test_a_number_of_threads_that_is_set_stays() -> None:
    variables = deterministic_variables(config("sft_tiny", ON), {"OMP_NUM_THREADS": "4"})
    assert variables["OMP_NUM_THREADS"] == "4"


def test_the_kernels_of_vllm_are_chosen_by_variables() -> None:
    chosen = config("grpo_tiny", "actor_rollout_ref.rollout.full_determinism=true")
    variables = deterministic_variables(chosen, {})
    assert variables["VLLM_BATCH_INVARIANT"] == variables["VERL_FULL_DETERMINISM"] == "1"


def test_other_runs_get_no_variables() -> None:
    assert deterministic_variables(config("sft_tiny"), {}) == {}
