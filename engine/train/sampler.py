"""verl's replay buffer with a short poll, an order of its own, and an eye on missing rewards.

``trainer.v1.sampler.custom_sampler`` is verl's hook for a subclass. The stock buffer sleeps 2.0 s
between looks at the queue and no setting changes that, which would be the length of a step here.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import transfer_queue as tq
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

POLL_S = 0.02


class TooFewRewardsError(RuntimeError):
    """Too many rollouts of a step have no reward to train on."""


class WatchfulReplayBuffer(ReplayBuffer):
    """Stops the run when more than ``max_failed_share`` of a step's rollouts have no reward.

    verl drops a rollout whose reward raised and trains on the rest. Below the limit that is what
    happens, and ``reward/failed_share`` says how often; above it the step would no longer be the
    configured one. A rollout left alone in its group goes too: without a group to compare it
    with, verl would take its reward for its advantage.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"poll_interval": POLL_S, **kwargs})
        self.rollouts_per_prompt = int(self.sampler_kwargs.get("rollouts_per_prompt", 1))
        self.max_failed_share = float(self.sampler_kwargs.get("max_failed_share", 1.0))

    def sample(
        self, global_steps: int, partition_id: str, batch_size: int
    ) -> tuple[KVBatchMeta, dict[str, Any]]:
        expected = batch_size * self.rollouts_per_prompt
        try:
            batch, metrics = super().sample(global_steps, partition_id, batch_size)
        except RuntimeError as error:
            if "no materializable trajectories" not in str(error):
                raise
            raise self._stop(global_steps, expected, expected) from error
        if partition_id != "train":
            return batch, metrics
        failed = expected - len(batch.keys)
        if failed / expected > self.max_failed_share:
            raise self._stop(global_steps, failed, expected)
        kept = self._without_lonely(batch)
        if not kept.keys:
            raise self._stop(global_steps, failed, expected)
        return _in_order(kept), {**metrics, "reward/failed_share": failed / expected}

    def _without_lonely(self, batch: KVBatchMeta) -> KVBatchMeta:
        if self.rollouts_per_prompt == 1:
            return batch
        sizes = Counter(_group(key) for key in batch.keys)
        keep = [sizes[_group(key)] > 1 for key in batch.keys]
        if all(keep):
            return batch
        lonely = [key for key, kept in zip(batch.keys, keep, strict=True) if not kept]
        tq.kv_clear(keys=lonely, partition_id=batch.partition_id)
        return KVBatchMeta(
            partition_id=batch.partition_id,
            keys=[key for key, kept in zip(batch.keys, keep, strict=True) if kept],
            tags=[tag for tag, kept in zip(batch.tags, keep, strict=True) if kept],
        )

    def _stop(self, step: int, failed: int, expected: int) -> TooFewRewardsError:
        return TooFewRewardsError(
            f"step {step}: {failed} of {expected} rollouts got no reward, more than "
            f"grubrics.max_failed_share={self.max_failed_share:g} allows; "
            "reward.jsonl has the error of each"
        )


def _in_order(batch: KVBatchMeta) -> KVBatchMeta:
    """The same rollouts by content instead of by arrival.

    Sums of floats depend on their order: a resumed run would end in other last bits, and soon in
    other tokens.
    """
    found = tq.kv_batch_get(
        keys=batch.keys, partition_id=batch.partition_id, select_fields=["prompts", "responses"]
    )
    rows = zip(found["prompts"].unbind(), found["responses"].unbind(), strict=True)
    content = [(prompt.tolist(), response.tolist()) for prompt, response in rows]
    batch.reorder(sorted(range(len(content)), key=content.__getitem__))
    return batch


def _group(key: str) -> str:
    """Trajectory keys are ``<group>_<rollout>_<output>``."""
    return key.split("_", 1)[0]
