"""What certainly does not fit forbids the launch; an upper bound only warns."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.checks import memory_and_disk
from engine.checks.check import Check, Subject
from engine.checks.estimate.memory import GIB
from engine.config.load import load_config
from tests.paths import CONFIGS

MICRO = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"
SHARE = "actor_rollout_ref.rollout.gpu_memory_utilization"


def checked(
    monkeypatch: pytest.MonkeyPatch,
    card: float | None,
    *overrides: str,
    name: str = "verl_grpo",
    host: float = 256,
    free: float = 200,
) -> Check:
    """On a machine with one such GPU and so much memory, in GiB."""
    size = None if card is None else int(card * GIB)
    monkeypatch.setattr(memory_and_disk, "smallest_gpu", lambda: size)
    monkeypatch.setattr(memory_and_disk, "host_memory", lambda: (int(host * GIB), int(free * GIB)))
    config = load_config(str(CONFIGS / f"{name}.yaml"), overrides, {})
    return memory_and_disk.check_memory(Subject(config, {}, Path("runs")))


def test_the_production_config_fits_its_card_with_the_arithmetic_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = checked(monkeypatch, 79.6)
    assert "rollout: 58.0 GiB = KV cache 23.9 GiB + weights 15.6 GiB" in result.message
    assert "of 79.6 GiB" in result.message


def test_a_share_of_vllm_that_the_weights_do_not_leave_is_refused_with_a_smaller_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """0.85 of the card beside the trainer: what once ran out of memory."""
    result = checked(monkeypatch, 79.6, f"{SHARE}=0.85")
    assert result.status == "fail"
    assert result.fix is not None and result.fix.startswith(f"{SHARE}=")
    assert checked(monkeypatch, 79.6, result.fix).status != "fail"


def test_logits_that_may_not_fit_only_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    result = checked(monkeypatch, 79.6, f"{MICRO}=24")
    assert result.status == "warn"
    assert "update:" in result.message
    assert result.fix == f"{MICRO}=12"


def test_a_card_that_is_too_small_for_the_states_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert checked(monkeypatch, 24).status == "fail"


def test_a_cache_too_small_for_what_vllm_must_promise_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = checked(monkeypatch, 79.6, f"{SHARE}=0.25")
    assert result.status == "fail"
    assert result.fix == "actor_rollout_ref.rollout.max_model_len=2560"


def test_on_a_cpu_and_without_a_visible_gpu_there_is_no_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert checked(monkeypatch, None, name="grpo_tiny").status == "skip"
    result = checked(monkeypatch, None)
    assert result.status == "skip" and "no GPU is visible" in result.message


def test_a_model_of_unknown_dimensions_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    result = checked(monkeypatch, 80, "actor_rollout_ref.model.path=somebody/else-9B")
    assert result.status == "skip" and "somebody/else-9B" in result.message


def test_a_host_too_small_for_a_checkpoint_and_sleeping_weights_is_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = checked(monkeypatch, 79.6, host=24)
    assert result.status == "warn"
    assert "checkpoint being saved 16.2 GiB + vLLM's weights" in result.message


@pytest.mark.row("G52")
def test_a_host_whose_memory_others_use_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    result = checked(monkeypatch, 79.6, host=64, free=24)
    assert result.status == "warn"
    assert "24.0 GiB of the host's 64.0 GiB are free now" in result.message


@pytest.mark.row("G43")
def test_little_memory_left_on_the_card_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    fp32 = "actor_rollout_ref.actor.fsdp_config.model_dtype=fp32"
    result = checked(monkeypatch, 79.6, fp32)
    assert result.status == "warn" and "at the limit: rollout: 74." in result.message
