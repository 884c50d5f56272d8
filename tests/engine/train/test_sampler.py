"""Which groups a step is trained on: verl's own buffers over a queue in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from verl.trainer.ppo.v1 import replay_buffer

from engine.config.compose import LENGTH_SCHEDULE, TEMPERATURE_SCHEDULE
from engine.train import sampler
from engine.train.agent_loop import LENGTH, TEMPERATURE
from engine.train.sampler import (
    MixedTemperaturesError,
    TooFewRewardsError,
    TooManyRefillsError,
    WatchfulReplayBuffer,
    WatchfulReplayBufferAsync,
)

BATCH, N = 2, 3
Rewards = Sequence[float | None]
"""Of the rollouts of one group; None for one that failed."""
FLAT: Rewards = (1.0, 1.0, 1.0)
SPREAD: Rewards = (0.0, 1.0, 1.0)


class Queue:
    """What the buffers read of TransferQueue: the tags of groups and the fields of rollouts."""

    def __init__(self) -> None:
        self.tags: dict[str, dict[str, Any]] = {}
        self.fields: dict[str, dict[str, Any]] = {}
        self.names = (f"g{number}" for number in count())

    def add(
        self,
        rewards: Rewards,
        step: int = 1,
        acc: Sequence[float] | None = None,
        temperature: float | None = None,
        length: int | None = None,
    ) -> str:
        group = next(self.names)
        status = "failure" if None in rewards else "finished"
        self.tags[group] = {"is_prompt": True, "status": status, "global_steps": step}
        for rollout, reward in enumerate(rewards):
            if reward is None:
                continue
            numbers = {} if acc is None else {"acc": acc[rollout]}
            self.tags[key := f"{group}_{rollout}_0"] = {"status": "success"}
            self.fields[key] = {
                "rm_scores": torch.tensor([0.0, reward]),
                "extra_fields": {"reward_extra_info": numbers},
                "prompts": torch.tensor([1, 2]),
                "responses": torch.tensor([len(self.fields), 4]),
                TEMPERATURE: temperature,
                LENGTH: length,
            }
        return group

    def kv_list(self, partition_id: str | None = None) -> dict[str, Any]:
        return {"train": dict(self.tags)}

    def kv_batch_get(self, keys: list[str], select_fields: list[str], **_: Any) -> dict[str, Any]:
        result = {name: [self.fields[key][name] for key in keys] for name in select_fields}
        return {
            name: torch.stack(values) if isinstance(values[0], torch.Tensor) else values
            for name, values in result.items()
        }

    def kv_clear(self, keys: Iterable[str], **_: Any) -> None:
        for key in keys:
            self.tags.pop(key, None)
            self.fields.pop(key, None)


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Queue:
    queue = Queue()
    for module in (sampler, replay_buffer):
        monkeypatch.setattr(module, "tq", queue)
    return queue


def buffer(
    kind: type[WatchfulReplayBuffer] | type[WatchfulReplayBufferAsync] = WatchfulReplayBuffer,
    refill: Callable[[int], Any] | None = None,
    threshold: int | None = None,
    strategy: str = "drop",
    **settings: Any,
) -> Any:
    usual = {"rollouts_per_prompt": N, "train_batch_size": BATCH, "max_refill_batches": 3}
    return kind(
        trainer_mode="sync" if kind is WatchfulReplayBuffer else "colocate_async",
        trainer_config=OmegaConf.create({}),
        max_off_policy_threshold=threshold,
        max_off_policy_strategy=strategy,
        sampler_kwargs=OmegaConf.create({**usual, **settings}),
        refill_fn=refill,
        poll_interval=0.0,
    )


def groups(batch: Any) -> set[str]:
    return {key.split("_")[0] for key in batch.keys}


def adding(queue: Queue, *supply: Rewards, step: int = 1) -> Callable[[int], None]:
    """A refill that submits the groups of ``supply`` in turn, the last one again and again."""
    left = list(supply)

    def refill(prompts: int) -> None:
        for _ in range(prompts):
            queue.add(left.pop(0) if len(left) > 1 else left[0], step)

    return refill


def test_with_the_filter_no_group_of_equal_reward_is_trained(queue: Queue) -> None:
    flat, spread = queue.add(FLAT), queue.add(SPREAD)
    watched = buffer(refill=adding(queue, FLAT, SPREAD), filter_groups_metric="reward")
    batch, metrics = watched.sample(1, "train", BATCH)
    assert len(groups(batch)) == BATCH and spread in groups(batch) and flat not in groups(batch)
    assert metrics["training/filter_groups/evicted_samples"] == 2
    assert metrics["training/groups/refilled_total"] == 2
    assert metrics["training/groups/trained_total"] == BATCH


def test_without_the_filter_nothing_is_replaced(queue: Queue) -> None:
    both = {queue.add(FLAT), queue.add(SPREAD)}
    batch, metrics = buffer().sample(1, "train", BATCH)
    assert groups(batch) == both
    assert metrics == {"reward/failed_share": 0.0}


def test_the_values_of_schedules_are_metrics_of_the_rollouts(queue: Queue) -> None:
    for rewards in (FLAT, SPREAD):
        queue.add(rewards, temperature=0.4, length=12)
    scheduled = [TEMPERATURE_SCHEDULE, LENGTH_SCHEDULE]
    _, metrics = buffer(scheduled=scheduled).sample(1, "train", BATCH)
    wanted = {"rollout/temperature": 0.4, "rollout/max_response_length": 12}
    assert metrics == {"reward/failed_share": 0.0, **wanted}


def test_a_step_with_rollouts_of_two_temperatures_ends_the_run(queue: Queue) -> None:
    for temperature in (0.4, 0.5):
        queue.add(SPREAD, temperature=temperature)
    with pytest.raises(MixedTemperaturesError, match=r"step 1: .* at temperatures 0\.4, 0\.5;"):
        buffer(scheduled=[TEMPERATURE_SCHEDULE]).sample(1, "train", BATCH)


def test_a_group_that_lost_a_rollout_is_filtered_like_a_whole_one(queue: Queue) -> None:
    flat, spread = queue.add((1.0, 1.0, None)), queue.add((0.0, 1.0, None))
    lonely = queue.add((1.0, None, None))
    watched = buffer(refill=adding(queue, SPREAD, FLAT), filter_groups_metric="reward")
    batch, _ = watched.sample(1, "train", BATCH)
    assert spread in groups(batch)
    assert not groups(batch) & {flat, lonely}


def test_the_filter_uses_the_configured_metric(queue: Queue) -> None:
    right = queue.add(SPREAD, acc=(1.0, 1.0, 1.0))
    mixed = {queue.add(FLAT, acc=(0.0, 1.0, 1.0)) for _ in range(BATCH)}
    watched = buffer(refill=lambda prompts: None, filter_groups_metric="acc")
    batch, _ = watched.sample(1, "train", BATCH)
    assert groups(batch) == mixed and right not in groups(batch)


@pytest.mark.parametrize(("batches", "replaced"), [(3, 6), (0, 0)])
def test_data_without_a_signal_end_the_run_instead_of_generating_forever(
    queue: Queue, batches: int, replaced: int
) -> None:
    queue.add(FLAT), queue.add(FLAT)
    watched = buffer(
        refill=adding(queue, FLAT), filter_groups_metric="reward", max_refill_batches=batches
    )
    with pytest.raises(TooManyRefillsError) as caught:
        watched.sample(5, "train", BATCH)
    assert f"step 5: {replaced} prompts were replaced" in str(caught.value)
    assert f"{2 + replaced} with equal reward" in str(caught.value)


def test_rollouts_in_flight_may_complete_a_step_at_its_refill_limit(queue: Queue) -> None:
    queue.add(FLAT), queue.add(FLAT)
    supply = adding(queue, FLAT, SPREAD)
    watched = buffer(refill=supply, filter_groups_metric="reward", max_refill_batches=2)
    batch, metrics = watched.sample(1, "train", BATCH)
    assert len(groups(batch)) == BATCH
    assert metrics["training/groups/refilled_total"] <= 2 * BATCH


def test_the_refill_limit_is_per_step(queue: Queue) -> None:
    watched = buffer(
        refill=adding(queue, SPREAD), filter_groups_metric="reward", max_refill_batches=1
    )
    for step in range(1, 5):
        queue.add(FLAT, step), queue.add(SPREAD, step)
        _, metrics = watched.sample(step, "train", BATCH)
        assert metrics["training/groups/refilled_total"] == 2


def test_failed_groups_are_replaced_where_the_config_wants_it(queue: Queue) -> None:
    lost: Rewards = (None, None, None)
    failed, whole = queue.add(lost), queue.add(FLAT)
    settings: dict[str, Any] = {"sync_refill_failed_groups": True, "max_failed_share": 0.9}
    watched = buffer(refill=adding(queue, lost, FLAT), **settings)
    batch, metrics = watched.sample(1, "train", BATCH)
    assert whole in groups(batch) and failed not in groups(batch) and len(groups(batch)) == BATCH
    assert metrics["training/rollout_failure/evicted_samples"] == 2
    assert metrics["reward/failed_share"] == 2 * N / (4 * N)


def test_replaced_groups_count_for_the_share_without_a_reward(queue: Queue) -> None:
    lost: Rewards = (None, None, None)
    queue.add(lost), queue.add(FLAT)
    settings: dict[str, Any] = {"sync_refill_failed_groups": True, "max_failed_share": 0.3}
    with pytest.raises(TooFewRewardsError, match="3 of 9 rollouts"):
        buffer(refill=adding(queue, FLAT), **settings).sample(1, "train", BATCH)


def test_a_judge_that_never_answers_ends_the_refills(queue: Queue) -> None:
    lost: Rewards = (None, None, None)
    queue.add(lost), queue.add(lost)
    watched = buffer(refill=adding(queue, lost), sync_refill_failed_groups=True)
    with pytest.raises(TooManyRefillsError, match=r"6 prompts .* 8 without a reward"):
        watched.sample(1, "train", BATCH)


def test_async_training_drops_stale_groups(queue: Queue) -> None:
    stale, fresh = queue.add(SPREAD, step=1), queue.add(SPREAD, step=3)
    refill = adding(queue, SPREAD, step=4)
    watched = buffer(WatchfulReplayBufferAsync, refill=refill, threshold=2)
    batch, metrics = watched.sample(4, "train", BATCH)
    assert fresh in groups(batch) and stale not in groups(batch)
    assert metrics["training/off_policy/evicted_samples"] == 1
    assert metrics["training/off_policy/evicted_samples_staleness/max"] == 4


def test_async_training_that_waits_drops_nothing(queue: Queue) -> None:
    both = {queue.add(SPREAD, step=1), queue.add(SPREAD, step=3)}
    watched = buffer(WatchfulReplayBufferAsync, threshold=2, strategy="wait")
    batch, metrics = watched.sample(4, "train", BATCH)
    assert groups(batch) == both
    assert "training/off_policy/evicted_samples" not in metrics


def test_async_refills_end_too(queue: Queue) -> None:
    queue.add(SPREAD, step=1), queue.add(SPREAD, step=1)
    refill = adding(queue, SPREAD, step=1)
    watched = buffer(WatchfulReplayBufferAsync, refill=refill, threshold=2)
    with pytest.raises(TooManyRefillsError, match=r"6 prompts .* 8 too stale"):
        watched.sample(9, "train", BATCH)


def test_the_next_async_step_replaces_what_the_previous_one_could_not(queue: Queue) -> None:
    for step in (1, 1, 9, 9):
        queue.add(SPREAD, step)
    refill = adding(queue, SPREAD, step=9)
    watched = buffer(WatchfulReplayBufferAsync, refill=refill, threshold=2, max_refill_batches=0)
    watched.sample(9, "train", BATCH)
    watched.max_refill_batches = 1
    _, metrics = watched.sample(10, "train", BATCH)
    assert metrics["training/groups/refilled_total"] == 2


def test_the_async_buffer_can_lend_the_trainers_gpus() -> None:
    """What verl asks of a sampler with ``hybrid_rollout.enable_switch``."""
    watched = buffer(WatchfulReplayBufferAsync)
    assert all(hasattr(watched, name) for name in ("wait_for_sampleable", "get_sampleable_count"))
