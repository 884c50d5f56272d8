"""bfloat16 is asked for only where the hardware computes in it, or the preflight checks say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.checks.check import Check
from engine.checks.environment import Card, check_precision, read_cpu_flags
from engine.config.load import Config, load_config
from tests.paths import CONFIGS

TURING, AMPERE, HOPPER = Card("Tesla T4", (7, 5)), Card("A100", (8, 0)), Card("H200", (9, 0))
PLAIN, WITH_UNITS = frozenset({"avx2", "avx512f"}), frozenset({"avx2", "avx512_bf16"})
TRAINER = "actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype"
ROLLOUT = "actor_rollout_ref.rollout.dtype"


def config(name: str, *overrides: str) -> Config:
    return load_config(str(CONFIGS / f"{name}.yaml"), overrides, {})


def answers(
    chosen: Config, *cards: Card, flags: frozenset[str] = PLAIN
) -> list[tuple[str, str | None]]:
    found: list[Check] = list(check_precision(chosen, cards, flags))
    return [(check.status, check.fix) for check in found]


@pytest.mark.row("V09")
def test_supervised_training_in_bf16_on_a_cpu_without_units_is_a_warning() -> None:
    asked = config("sft_tiny", "training.bf16=true")
    assert answers(asked) == [("warn", "training.bf16=false")]
    assert answers(asked, flags=WITH_UNITS) == []
    assert answers(asked, flags=frozenset()) == []
    assert answers(config("sft_tiny")) == []


def test_grpo_on_a_cpu_computes_in_fp32_unless_bf16_is_asked_for() -> None:
    assert answers(config("grpo_tiny")) == []
    asked = config("grpo_tiny", f"{TRAINER}=bf16")
    assert answers(asked) == [("warn", f"{TRAINER}=fp32")]


@pytest.mark.parametrize("cards", [(AMPERE,), (HOPPER, AMPERE), ()])
def test_gpus_with_units_are_fine(cards: tuple[Card, ...]) -> None:
    assert answers(config("verl_grpo"), *cards) == []
    assert answers(config("sft_healthbench"), *cards) == []


@pytest.mark.row("V09")
def test_vllm_refuses_bf16_on_an_older_gpu() -> None:
    (result,) = check_precision(config("verl_grpo"), [HOPPER, TURING], PLAIN)
    assert result.status == "fail" and result.fix is not None
    assert "Tesla T4 has compute capability 7.5" in result.message
    assert "vLLM refuses it" in result.message
    assert f"{ROLLOUT}=float16" in result.fix and f"{TRAINER}=float16" in result.fix
    assert answers(config("verl_grpo", *result.fix.split()), TURING) == []


@pytest.mark.row("V09")
def test_supervised_training_in_bf16_on_an_older_gpu_is_a_warning() -> None:
    assert answers(config("sft_healthbench"), TURING) == [("warn", "training.bf16=false")]


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="needs Linux")
def test_the_kernel_says_what_this_cpu_can_do() -> None:
    assert read_cpu_flags()
