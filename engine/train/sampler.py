"""verl's replay buffers with a short poll, a reproducible order, and limits on what is left out.

``trainer.v1.sampler.custom_sampler`` is verl's hook for a subclass. The stock buffer sleeps 2.0 s
between polls of the queue, which is as long as a step here, and no setting changes that.
To a custom sampler verl hands neither ``algorithm.filter_groups`` nor
``sync_refill_failed_groups``: ``engine.config.compose`` puts them into ``sampler_kwargs``.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import transfer_queue as tq
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer, ReplayBufferAsync

from engine.config.compose import LENGTH_SCHEDULE, TEMPERATURE_SCHEDULE
from engine.config.curriculum import phase_of
from engine.run.history import metrics as names
from engine.train.agent_loop import LENGTH, TEMPERATURE
from engine.train.mixed_dataset import FILE

POLL_S = 0.02

# verl's names of what it evicts, by the word for it in the error that ends a step.
_EVICTED = {
    "training/filter_groups/evicted_samples": "with equal {metric}",
    "training/rollout_failure/evicted_samples": "without a reward",
    "training/off_policy/evicted_samples": "too stale",
}
_FILTERED, _FAILED, _ = _EVICTED
# "total" makes verl sum them over the updates of an asynchronous step.
_REFILLED = "training/groups/refilled_total"
_TRAINED = "training/groups/trained_total"


_SCHEDULED = {
    TEMPERATURE_SCHEDULE: (TEMPERATURE, names.ROLLOUT_TEMPERATURE),
    LENGTH_SCHEDULE: (LENGTH, names.ROLLOUT_LENGTH),
}
"""The column of the rollouts that a schedule adds, and its metric."""


class TooFewRewardsError(RuntimeError):
    """Too many rollouts of a step have no reward to train on."""


class TooManyRefillsError(RuntimeError):
    """A step replaced as many prompts as it may and still has too few groups to train on."""


class MixedTemperaturesError(RuntimeError):
    """The rollouts of a step do not have one temperature."""


class _WatchfulBuffer(ReplayBuffer):
    """The common part of the sync and the async buffer.

    Stops the run when more than ``max_failed_share`` of a step's rollouts have no reward, or when
    a step would replace more than ``max_refill_batches`` batches of prompts: verl itself would
    generate forever from data without a signal.

    verl drops a rollout whose reward raised and trains on the rest; ``reward/failed_share`` is
    their share. Above the limit the step would no longer be the configured one. The only rollout
    left of a group is dropped too: verl would take its reward for its advantage.
    """

    def __init__(self, **kwargs: Any) -> None:
        settings = kwargs["sampler_kwargs"]
        self.rollouts_per_prompt = int(settings.get("rollouts_per_prompt", 1))
        self.max_failed_share = float(settings.get("max_failed_share", 1.0))
        self.max_refill_batches = int(settings.get("max_refill_batches", 0))
        self.scheduled = [_SCHEDULED[section] for section in settings.get("scheduled", ())]
        self.phase_ends = [int(end) for end in settings.get("phase_ends", ())]
        self._submit = kwargs.get("refill_fn")
        self._step = -1
        self._refilled, self._reported, self._owed = 0, 0, 0
        self._evicted: Counter[str] = Counter()
        super().__init__(
            **{
                "poll_interval": POLL_S,
                "filter_groups_metric": settings.get("filter_groups_metric"),
                "train_batch_size": settings.get("train_batch_size"),
                "gen_batch_size": 1,
                "max_inflight_gen_batches": settings.get("max_inflight_gen_batches", 1),
                "sync_refill_failed_groups": bool(settings.get("sync_refill_failed_groups", False)),
                **kwargs,
                "refill_fn": self._refill,
            }
        )

    def sample(
        self, global_steps: int, partition_id: str, batch_size: int
    ) -> tuple[KVBatchMeta, dict[str, Any]]:
        metrics: dict[str, Any]
        if partition_id != "train":
            batch, metrics = super().sample(global_steps, partition_id, batch_size)
            return batch, metrics
        self._begin(global_steps)
        evicted = Counter(self._evicted)
        try:
            batch, metrics = super().sample(global_steps, partition_id, batch_size)
        except RuntimeError as error:
            if "no materializable trajectories" not in str(error):
                raise
            requested = batch_size * self.rollouts_per_prompt
            raise self._too_few_error(requested, requested) from error
        evicted = self._evicted - evicted
        groups = batch_size + evicted[_FAILED]
        expected = groups * self.rollouts_per_prompt
        failed = expected - len(batch.keys)
        trained = self._without_single(batch)
        if failed / expected > self.max_failed_share or not trained.keys:
            raise self._too_few_error(failed, expected)
        metrics = {**metrics, "reward/failed_share": failed / expected}
        metrics |= self._scheduled_values(trained) | self._curriculum_values(trained)
        if self._replaces:
            metrics[_REFILLED] = self._refilled - self._reported
            self._reported = self._refilled
            metrics[_TRAINED] = len({_group(key) for key in trained.keys})
        if self.filter_groups_metric is not None:
            metrics = {_FILTERED: 0, **metrics}
        return _in_order(trained), metrics

    @property
    def _replaces(self) -> bool:
        """Whether a group that is evicted is replaced by that of another prompt."""
        asynchronous = isinstance(self, ReplayBufferAsync)
        filters = self.filter_groups_metric is not None
        return asynchronous or filters or bool(self.sync_refill_failed_groups)

    def _begin(self, step: int) -> None:
        """Reset the counts for a step.

        An asynchronous step also replaces what the step before could not: its groups are generated
        ahead, and no later step would replace them.
        """
        if step == self._step:
            return
        owed = self._owed if isinstance(self, ReplayBufferAsync) else 0
        self._step, self._refilled, self._reported, self._owed = step, 0, 0, 0
        self._evicted.clear()
        if owed:
            self._refill(owed)

    def _refill(self, prompts: int) -> None:
        """Replace as many prompts as the step may still replace."""
        allowed = self.max_refill_batches * int(self.train_batch_size or 0) - self._refilled
        dispatched = max(0, min(prompts, allowed))
        self._refilled += dispatched
        self._owed += prompts - dispatched
        if dispatched:
            assert self._submit is not None
            self._submit(dispatched)

    def _evict_terminal_groups(self, *arguments: Any) -> tuple[set[str], int, int, dict[str, Any]]:
        evicted: tuple[set[str], int, int, dict[str, Any]]
        evicted = super()._evict_terminal_groups(*arguments)
        self._evicted.update({name: n for name, n in evicted[3].items() if name in _EVICTED})
        return evicted

    def _wait_for_next_poll(self, partition_id: str, last_debug_time: float) -> float:
        """Raise if nothing is generated and nothing more may be: waiting would never end."""
        in_flight = self.pending_keys[partition_id] | self.running_keys[partition_id]
        if partition_id == "train" and self._owed and not in_flight:
            raise self._too_many_error()
        moment: float = super()._wait_for_next_poll(partition_id, last_debug_time)
        return moment

    def _without_single(self, batch: KVBatchMeta) -> KVBatchMeta:
        """Return the batch without rollouts that are the only one of their group."""
        if self.rollouts_per_prompt == 1:
            return batch
        sizes = Counter(_group(key) for key in batch.keys)
        single = [key for key in batch.keys if sizes[_group(key)] == 1]
        if not single:
            return batch
        tq.kv_clear(keys=single, partition_id=batch.partition_id)
        rows = zip(batch.keys, batch.tags, strict=True)
        trained = [(key, tag) for key, tag in rows if sizes[_group(key)] > 1]
        return KVBatchMeta(
            partition_id=batch.partition_id,
            keys=[key for key, _ in trained],
            tags=[tag for _, tag in trained],
        )

    def _scheduled_values(self, batch: KVBatchMeta) -> dict[str, float]:
        """The temperature of the rollouts, and the longest length that any of them may have."""
        if not self.scheduled:
            return {}
        columns = [column for column, _ in self.scheduled]
        rows = tq.kv_batch_get(
            keys=batch.keys, partition_id=batch.partition_id, select_fields=columns
        )
        found = {column: sorted({float(value) for value in rows[column]}) for column in columns}
        if len(temperatures := found.get(TEMPERATURE, [])) > 1:
            listed = ", ".join(f"{value:g}" for value in temperatures)
            raise MixedTemperaturesError(
                f"step {self._step}: rollouts were sampled at temperatures {listed}; verl's "
                "trainer computes a step with a single one"
            )
        return {metric: found[column][-1] for column, metric in self.scheduled}

    def _curriculum_values(self, batch: KVBatchMeta) -> dict[str, float]:
        """The phase of the step, and the share of the prompts that are of the first file."""
        if not self.phase_ends:
            return {}
        rows = tq.kv_batch_get(
            keys=batch.keys, partition_id=batch.partition_id, select_fields=[FILE]
        )
        files = dict(zip(map(_group, batch.keys), map(int, rows[FILE]), strict=True))
        return {
            names.CURRICULUM_PHASE: phase_of(self.phase_ends, self._step),
            names.CURRICULUM_PHASES: len(self.phase_ends),
            names.VERIFIABLE_SHARE: sum(file == 0 for file in files.values()) / len(files),
        }

    def _too_few_error(self, failed: int, expected: int) -> TooFewRewardsError:
        return TooFewRewardsError(
            f"step {self._step}: {failed} of {expected} rollouts got no reward, more than "
            f"grubrics.max_failed_share={self.max_failed_share:g} allows; "
            "reward.jsonl has the error of each"
        )

    def _too_many_error(self) -> TooManyRefillsError:
        words = ((self._evicted[name], word) for name, word in _EVICTED.items())
        metric = self.filter_groups_metric
        reasons = ", ".join(f"{n} {word.format(metric=metric)}" for n, word in words if n)
        return TooManyRefillsError(
            f"step {self._step}: {self._refilled} prompts were replaced and the step still lacks "
            f"groups to train on; evicted groups: {reasons}; no more than "
            f"{self.max_refill_batches} x data.train_batch_size={self.train_batch_size} may be "
            "replaced (grubrics.max_refill_batches)"
        )


class WatchfulReplayBuffer(_WatchfulBuffer):
    """For ``trainer_mode=sync``; filters groups that lost a rollout like whole ones."""

    def _terminal_eviction_reasons(
        self, global_steps: int, partition_id: str
    ) -> tuple[set[str], set[str], set[str], Any]:
        """verl's reasons, and with the filter on: too few rollouts left to compare."""
        stale, filtered, failed, counts = super()._terminal_eviction_reasons(
            global_steps, partition_id
        )
        if self.filter_groups_metric is not None and partition_id == "train":
            failed = failed | (self.failure_keys[partition_id] - self._comparable(partition_id))
        return stale, filtered, failed, counts

    def _dapo_filtered_keys(self, partition_id: str) -> tuple[set[str], Any]:
        """Also filter groups with failed rollouts: verl filters finished groups only."""
        finished = self.finished_keys[partition_id]
        partly = self.failure_keys[partition_id] & self._comparable(partition_id)
        self.finished_keys[partition_id] = finished | partly
        try:
            filtered: tuple[set[str], Any] = super()._dapo_filtered_keys(partition_id)
            return filtered
        finally:
            self.finished_keys[partition_id] = finished

    def _comparable(self, partition_id: str) -> set[str]:
        """Groups with rollouts enough for an advantage."""
        needed = min(2, self.rollouts_per_prompt)
        sizes = Counter(_group(key) for key in self.partitions[partition_id])
        return {group for group, size in sizes.items() if size >= needed}


class WatchfulReplayBufferAsync(_WatchfulBuffer, ReplayBufferAsync):
    """For ``colocate_async`` and ``separate_async``: verl evicts stale groups, too."""

    def wait_for_sampleable(
        self, global_steps: int, partition_id: str, target_count: int
    ) -> tuple[set[str], dict[str, Any]]:
        if partition_id == "train":
            self._begin(global_steps)
        sampleable: tuple[set[str], dict[str, Any]]
        sampleable = super().wait_for_sampleable(global_steps, partition_id, target_count)
        return sampleable


def _in_order(batch: KVBatchMeta) -> KVBatchMeta:
    """The same rollouts by content instead of by arrival.

    Sums of floats depend on their order: a resumed run would end in other last bits, and soon in
    other tokens.
    """
    texts = tq.kv_batch_get(
        keys=batch.keys, partition_id=batch.partition_id, select_fields=["prompts", "responses"]
    )
    rows = zip(texts["prompts"].unbind(), texts["responses"].unbind(), strict=True)
    content = [(prompt.tolist(), response.tolist()) for prompt, response in rows]
    batch.reorder(sorted(range(len(content)), key=content.__getitem__))
    return batch


def _group(key: str) -> str:
    """Trajectory keys are ``<group>_<rollout>_<output>``."""
    return key.split("_", 1)[0]
