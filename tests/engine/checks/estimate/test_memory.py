"""Peaks of the phases: they add up, and they move the way the settings push them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.checks.estimate.memory import GIB, Breakdown, Memory, Part, breakdown, cache_of, memory
from engine.checks.estimate.model_shape import known
from engine.checks.estimate.training import training_of
from engine.config.compose import effective
from engine.config.load import load_config
from tests.paths import CONFIGS

CARD = 80 * GIB
QWEN = known("Qwen/Qwen3-8B")
DTYPE = "actor_rollout_ref.actor.fsdp_config.model_dtype"
MICRO = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"
SHARE = "actor_rollout_ref.rollout.gpu_memory_utilization"
RANK = "actor_rollout_ref.model.lora_rank"
OFFLOAD = "actor_rollout_ref.actor.fsdp_config.optimizer_offload"
KL = "actor_rollout_ref.actor.use_kl_loss"


def estimated(*overrides: str, card: int | None = CARD) -> Memory:
    config = effective(load_config(str(CONFIGS / "verl_grpo.yaml"), overrides, {}), Path("x"))
    assert QWEN is not None
    return memory(training_of(config, QWEN), QWEN, card)


def phase(found: Memory, name: str) -> Breakdown:
    return next(one for one in found.phases if one.name == name)


def part(found: Breakdown, name: str) -> int:
    return next((one.bytes for one in found.parts if one.name == name), 0)


def test_fp32_weights_of_8b_are_the_33_gb_of_the_production_notes() -> None:
    rollout = phase(estimated(f"{DTYPE}=fp32"), "rollout")
    trainer = part(rollout, "weights") + part(rollout, "optimizer states")
    assert trainer == pytest.approx(34.9e9, rel=0.01)
    update = phase(estimated(f"{DTYPE}=fp32"), "update")
    assert part(update, "weights") == pytest.approx(33e9, rel=0.02)


def test_bf16_weights_are_half_of_that() -> None:
    whole, half = (
        part(phase(estimated(f"{DTYPE}={t}"), "update"), "weights") for t in ("fp32", "bf16")
    )
    assert whole == 2 * half


def test_the_share_of_vllm_is_filled_to_the_byte() -> None:
    rollout = phase(estimated(f"{SHARE}=0.5"), "rollout")
    names = ("vllm weights", "vLLM activations", "KV cache")
    assert sum(part(rollout, name) for name in names) == CARD // 2


def test_twice_the_micro_batch_is_twice_the_activations_and_logits() -> None:
    one, two = (phase(estimated(f"{MICRO}={micro}"), "update") for micro in (4, 8))
    for name in ("layer inputs", "logits"):
        assert part(two, name) == 2 * part(one, name)


def test_lora_trains_less_than_every_weight() -> None:
    adapters, every = estimated(), estimated(f"{RANK}=0")
    assert part(phase(every, "update"), "optimizer states") == 2 * 2 * 8_190_735_360
    assert adapters.peak.total < every.peak.total


def test_offloaded_moments_are_on_the_host_while_the_rollout_runs() -> None:
    here, there = estimated(f"{RANK}=0"), estimated(f"{RANK}=0", f"{OFFLOAD}=true")
    moments = part(phase(here, "rollout"), "optimizer states")
    assert phase(here, "rollout").total - phase(there, "rollout").total == moments
    assert part(there.host, "offloaded optimizer states") == moments
    assert part(phase(there, "optimizer step"), "optimizer states") == moments


def test_the_reference_of_lora_is_the_same_model() -> None:
    assert part(estimated(f"{KL}=true").host, "reference model") == 0
    whole = estimated(f"{KL}=true", f"{RANK}=0")
    assert part(whole.host, "reference model") == 4 * 8_190_735_360


def test_shards_divide_states_and_add_what_is_gathered() -> None:
    one = phase(estimated(f"{RANK}=0"), "update")
    four = phase(estimated(f"{RANK}=0", "trainer.n_gpus_per_node=4"), "update")
    assert part(four, "weights") == part(one, "weights") // 4
    assert part(one, "weights in use") == 0 < part(four, "weights in use")


def test_the_cache_holds_as_many_tokens_as_its_bytes_give() -> None:
    config = load_config(str(CONFIGS / "verl_grpo.yaml"), (), {})
    assert QWEN is not None
    rollout = training_of(config, QWEN).rollout
    assert rollout is not None
    cache = cache_of(rollout, QWEN, CARD)
    assert cache.per_token == 2 * 36 * 8 * 128 * 2
    assert cache.tokens == cache.bytes // cache.per_token
    assert cache.sequences == pytest.approx(cache.bytes / cache.per_token / 2560)


def test_without_a_known_card_vllm_is_left_out() -> None:
    assert part(phase(estimated(card=None), "rollout"), "KV cache") == 0


def test_sft_has_no_rollout(tmp_path: Path) -> None:
    config = load_config(str(CONFIGS / "sft_healthbench.yaml"), (), {})
    assert QWEN is not None
    result = memory(training_of(config, QWEN), QWEN, CARD)
    assert [one.name for one in result.phases] == ["update", "optimizer step"]
    assert part(result.phases[0], "weights") > 4 * 8_190_735_360  # fp32, and adapters


@pytest.mark.long
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([0, 16, 64]),
    st.sampled_from(["fp32", "bf16"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["vllm", "hf"]),
    st.integers(1, 8),
)
def test_parts_sum_to_the_total_and_none_is_negative(
    gpus: int, rank: int, dtype: str, offload: bool, kl: bool, engine: str, micro: int
) -> None:
    result = estimated(
        f"trainer.n_gpus_per_node={gpus}", f"{RANK}={rank}", f"{DTYPE}={dtype}",
        f"{OFFLOAD}={str(offload).lower()}", f"{KL}={str(kl).lower()}",
        f"actor_rollout_ref.rollout.name={engine}", f"{MICRO}={micro}",
    )  # fmt: skip
    for one in (*result.phases, result.host):
        assert one.total == sum(entry.bytes for entry in one.parts) >= 0
        assert all(entry.bytes > 0 and entry.how for entry in one.parts)
    assert result.peak.total == max(one.total for one in result.phases)
    json = result.to_json()
    assert json["peak_bytes"] == sum(
        entry["bytes"]
        for one in json["phases"]
        if one["name"] == json["peak"]
        for entry in one["parts"]
    )


def test_what_takes_nothing_is_no_part() -> None:
    assert breakdown("x", [Part("nothing", 0), Part("some", 3)]).parts == (Part("some", 3),)
