"""Estimate the GPU memory of the inference engine: vLLM, or generation with transformers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.base.text import count_of
from engine.estimate.breakdown import GIB, Part
from engine.estimate.model_shape import ModelShape
from engine.estimate.training import Rollout, Training

GRAPHS = GIB
"""CUDA graphs lie outside of vLLM's share; its log says "1~3 GiB", and small models take less."""


@dataclass(frozen=True)
class Cache:
    """Room for keys and values in vLLM's share of one GPU. ``sample``: bytes of the longest one,
    ``promised``: of one of ``max_model_len``; in layers with a window they are those in it."""

    bytes: int
    per_token: int
    sample: int
    promised: int

    @property
    def tokens(self) -> int:
        """Of all GPUs of one copy of the model together; each holds its part of every token."""
        return max(0, self.bytes) // self.per_token

    @property
    def sequences(self) -> float:
        """How many of the longest samples fit at once."""
        return max(0, self.bytes) / self.sample

    @property
    def suffices(self) -> bool:
        """Whether there is room for one sample of the length that vLLM must promise."""
        return self.bytes >= self.promised

    @property
    def holds_sample(self) -> bool:
        return self.bytes >= self.sample


def cache_of(rollout: Rollout, shape: ModelShape, gpu_bytes: int) -> Cache:
    """vLLM gives its cache what its share leaves beside weights and one batch's activations."""
    left = int(rollout.share * gpu_bytes) - _weights(rollout, shape).bytes - _batch(rollout, shape)
    each = rollout.width, rollout.replica
    return Cache(
        left,
        per_token=_kv_bytes(shape, 1, *each),
        sample=_kv_bytes(shape, rollout.longest, *each),
        promised=_kv_bytes(shape, rollout.model_len, *each),
    )


def engine_awake(rollout: Rollout, shape: ModelShape, gpu_bytes: int | None) -> Iterator[Part]:
    """Weights, activations and cache while it generates."""
    if rollout.name == "vllm":
        if gpu_bytes is not None:
            yield from _vllm(rollout, shape, gpu_bytes)
            yield Part("CUDA graphs", GRAPHS if rollout.graphs else 0, "enforce_eager=false")
        return
    yield _weights(rollout, shape)
    each = _kv_bytes(shape, rollout.longest, rollout.width, rollout.replica)
    how = f"{count_of(rollout.sequences, 'sample')} x {each:,} B ({rollout.longest:,} tokens each)"
    yield Part("keys and values", rollout.sequences * each, how)
    last = rollout.sequences * shape.vocab * 4
    yield Part("logits of the last token", last, f"{rollout.sequences} x {shape.vocab:,} x 4 B")


def engine_idle(rollout: Rollout, awake: list[Part]) -> list[Part]:
    """What stays on the GPU while the trainer works: vLLM sleeps, transformers' copy stays."""
    if rollout.name == "vllm":
        return [part for part in awake if not rollout.sleeps or part.name == "CUDA graphs"]
    return awake[:1]


def engine_waking(training: Training, shape: ModelShape) -> Iterator[Part]:
    """The engine's weights are back before its cache is; full weights come in buckets."""
    rollout = training.rollout
    if rollout is None:
        return
    weights = _weights(rollout, shape)
    yield weights
    if training.rank == 0 and rollout.name == "vllm":
        yield Part("bucket of weights", min(rollout.bucket, weights.bytes), "being sent to vLLM")


def _vllm(rollout: Rollout, shape: ModelShape, gpu_bytes: int) -> Iterator[Part]:
    """Its parts fill its share, or more than that where the weights alone do not fit in."""
    weights, batch = _weights(rollout, shape), _batch(rollout, shape)
    yield weights
    yield Part("vLLM activations", batch, f"{rollout.batched_tokens:,} tokens in one batch")
    cache = cache_of(rollout, shape, gpu_bytes)
    how = f"rest of {rollout.share:g} x {gpu_bytes / GIB:.1f} GiB: {cache.tokens:,} tokens"
    yield Part("KV cache", max(0, cache.bytes), how)


def _kv_bytes(shape: ModelShape, tokens: int, width: int, replica: int) -> int:
    """Of a sample, on one GPU."""
    return max(1, shape.kv_numbers(tokens) * width // replica)


def _weights(rollout: Rollout, shape: ModelShape) -> Part:
    each = f"{shape.weights:,} x {rollout.width} B / {count_of(rollout.replica, 'GPU')}"
    return Part(f"{rollout.name} weights", shape.weights * rollout.width // rollout.replica, each)


def _batch(rollout: Rollout, shape: ModelShape) -> int:
    """Activations of vLLM's largest batch: three in the feed-forward part, and two streams."""
    wide = 3 * shape.intermediate // rollout.replica + 2 * shape.hidden
    return rollout.batched_tokens * wide * rollout.width
