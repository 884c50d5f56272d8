"""Estimate the peak memory of one GPU in each phase of a step, and of the host.

The states are counted as in ZeRO (arXiv 1910.02054, section 3): weights, gradients and Adam's two
moments, each divided by the shards of FSDP. verl lets trainer and vLLM share each GPU: while one
works the other's memory is either resident or put to sleep, so each phase has a peak of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from engine.base.quantities import format_count
from engine.checks.estimate import activations
from engine.checks.estimate.activations import LogitsUse
from engine.checks.estimate.model_shape import ModelShape
from engine.checks.estimate.training import Rollout, Training

GIB = 1024**3


@dataclass(frozen=True)
class Part:
    """One thing that takes memory or disk. ``how`` is its arithmetic in words and numbers."""

    name: str
    bytes: int
    how: str = ""


@dataclass(frozen=True)
class Breakdown:
    """Parts that are there at the same time."""

    name: str
    parts: tuple[Part, ...]

    @property
    def total(self) -> int:
        """Bytes; always the sum of the parts."""
        return sum(part.bytes for part in self.parts)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "bytes": self.total, "parts": [*map(asdict, self.parts)]}


def breakdown(name: str, parts: Iterable[Part]) -> Breakdown:
    """What takes nothing is left out."""
    return Breakdown(name, tuple(part for part in parts if part.bytes > 0))


CONTEXT = GIB // 2
"""What CUDA and its libraries take in each process, whatever it computes; a rule of thumb."""
SAVED = "checkpoint being saved"
"""The part of the host's memory that a save takes."""

_UPPER_BOUNDS = (
    *("layer inputs", "activations", "logits", "a layer running", "a layer running backward"),
    *("keys and values", "logits of the last token", "CUDA graphs", "CUDA contexts"),
)
"""Parts as if every sample were as long as is allowed, and rules of thumb."""


@dataclass(frozen=True)
class Memory:
    """``phases`` are breakdowns of one GPU in the order of a step; ``host`` of one node."""

    phases: tuple[Breakdown, ...]
    host: Breakdown

    @property
    def peak(self) -> Breakdown:
        return max(self.phases, key=lambda phase: phase.total)

    def to_json(self) -> dict[str, Any]:
        return {
            "peak": self.peak.name,
            "peak_bytes": self.peak.total,
            "phases": [phase.to_json() for phase in self.phases],
            "host": self.host.to_json(),
        }


def memory(training: Training, shape: ModelShape, gpu_bytes: int | None) -> Memory:
    """``gpu_bytes``: memory of one GPU; None leaves out vLLM, whose share is one of it."""
    rollout, always = training.rollout, [_contexts(training)]
    if rollout is None:
        return Memory(
            (_update(training, shape, always), _step(training, always)), _host(training, shape)
        )
    awake = [*engine_awake(rollout, shape, gpu_bytes)]
    idle = [*always, *engine_idle(rollout, awake)]
    phases = (
        breakdown("rollout", [*_between_steps(training), *awake, *always]),
        _scoring(training, shape, idle),
        _update(training, shape, idle),
        _step(training, idle),
        # The trainer's weights and the engine's at once; its cache is not back yet.
        breakdown(
            "weights to the rollout",
            [*_loaded(training), *engine_waking(training, shape), *always],
        ),
    )
    return Memory(phases, _host(training, shape))


def certain(phase: Breakdown) -> int:
    """Bytes that a phase takes however short the samples are: states and vLLM's share."""
    return sum(part.bytes for part in phase.parts if part.name not in _UPPER_BOUNDS)


def states(training: Training) -> tuple[Part, Part, Part]:
    """Weights, gradients and Adam's moments of one GPU's shard.

    verl casts adapters to the type of the base weights, and torch keeps Adam's moments in the
    type of the weights, so all of them are ``stored`` bytes wide.
    """
    adapters = training.trained if training.rank else 0
    every = training.weights + adapters
    own = f"{training.stored} B / {format_count(training.shards, 'shard')}"
    trained = training.trained * training.stored // training.shards
    return (
        Part("weights", every * training.stored // training.shards, f"{every:,} x {own}"),
        Part("gradients", trained, f"{training.trained:,} x {own}"),
        Part("optimizer states", 2 * trained, f"2 x {training.trained:,} x {own}"),
    )


def _between_steps(training: Training) -> Iterator[Part]:
    """What the trainer leaves on the GPU while the rollout engine works; gradients are freed."""
    weights, _, moments = states(training)
    if not training.param_offload:
        yield weights
    if not training.optimizer_offload:
        yield moments


def _loaded(training: Training) -> Iterator[Part]:
    """While the trainer computes: weights that were offloaded are back, moments are not."""
    weights, _, moments = states(training)
    yield weights
    if not training.optimizer_offload:
        yield moments


def _update(training: Training, shape: ModelShape, idle: list[Part]) -> Breakdown:
    """Forward and backward of the last micro batch, when the gradients are there already."""
    copies = _copies(training, shape, backward=True)
    return breakdown("update", [*states(training), *copies, *_kept(training, shape), *idle])


def _step(training: Training, idle: list[Part]) -> Breakdown:
    """torch's multi-tensor AdamW makes one more tensor of the size of the weights (its docs)."""
    gradients = states(training)[1]
    more = Part("AdamW's intermediate", gradients.bytes, gradients.how)
    return breakdown("optimizer step", [*states(training), more, *idle])


def _kept(training: Training, shape: ModelShape) -> Iterator[Part]:
    """Activations at the worst moment: when the logits are there, or when a layer is redone."""
    precision, tokens = training.precision, training.update_tokens
    whole = activations.layer_bytes(shape, precision)
    each = activations.checkpoint_bytes(shape, precision) if training.checkpointing else whole
    what = "layer inputs" if training.checkpointing else "activations"
    layers = format_count(shape.layers, "layer")
    yield Part(what, tokens * shape.layers * each, f"{tokens:,} tokens x {layers} x {each:,} B")
    outer = activations.outer_bytes(shape, precision)
    head = _logits(training.update_logits, shape, tokens, outer)
    wide = (whole if training.checkpointing else 0) + activations.in_flight_bytes(shape, precision)
    layer = Part("a layer running backward", tokens * wide, f"{tokens:,} tokens x {wide:,} B")
    yield max(head, layer, key=lambda part: part.bytes)


def _logits(use: LogitsUse, shape: ModelShape, tokens: int, outer: int) -> Part:
    each = use.bytes * shape.vocab + outer
    copies = " + ".join(f"{width} {what}" for what, width in use.copies if width)
    how = (
        f"{tokens:,} tokens x ({shape.vocab:,} vocabulary x {use.bytes} B ({copies}) + {outer:,} B)"
    )
    return Part("logits", tokens * each, how)


def _scoring(training: Training, shape: ModelShape, idle: list[Part]) -> Breakdown:
    """Log-probabilities of the rollouts, without a backward pass."""
    tokens, precision = training.score_tokens, training.precision
    layer = activations.forward_bytes(shape, precision)
    forward = Part("a layer running", tokens * layer, f"{tokens:,} tokens x {layer:,} B")
    logits = _logits(training.score_logits, shape, tokens, training.compute * shape.hidden)
    peak = max(forward, logits, key=lambda part: part.bytes)
    copies = _copies(training, shape, backward=False)
    return breakdown("log-probabilities", [*_loaded(training), *copies, peak, *idle])


def _copies(training: Training, shape: ModelShape, *, backward: bool) -> Iterator[Part]:
    """Whole layers next to the shards: gathered (FSDP, arXiv 2304.11277) or in another type.

    Two layers, because the next one is fetched early, and what lies outside of the layers. Going
    backward, the largest of them also has its gradient, and that once more in fp32 to be reduced.
    """
    if not training.copies_shards:
        return
    count = 2 * shape.layer_weights + shape.outer_weights
    how = f"2 layers and embeddings: {count:,} x {training.compute} B"
    yield Part("weights in use", count * training.compute, how)
    if backward:
        share = training.trained / training.weights if training.rank else 1.0
        most = int(max(shape.layer_weights, shape.outer_weights) * share)
        width = training.compute + activations.FP32
        yield Part("gradients being reduced", most * width, f"{most:,} x {width} B")


def _contexts(training: Training) -> Part:
    processes = 0 if not training.on_gpu else 1 if training.rollout is None else 2
    count = format_count(processes, "process", plural="processes")
    return Part("CUDA contexts", processes * CONTEXT, f"{count} x 0.5 GiB")


def _host(training: Training, shape: ModelShape) -> Breakdown:
    """Of one node, beyond what Python and Ray take."""
    cards, (weights, _, moments) = training.gpus_per_node, states(training)
    parts = [
        Part("reference model", training.reference * shape.weights * cards // training.shards,
             "verl keeps it on the host"),
        Part(SAVED, (weights.bytes + moments.bytes) * cards,
             "weights and optimizer states of this node's shards"),
    ]  # fmt: skip
    if training.param_offload:
        parts.append(Part("offloaded weights", weights.bytes * cards, weights.how))
    if training.optimizer_offload:
        parts.append(Part("offloaded optimizer states", moments.bytes * cards, moments.how))
    rollout = training.rollout
    if rollout is not None and rollout.name == "vllm" and rollout.sleeps and training.rank:
        asleep = shape.weights * rollout.width * cards // rollout.replica
        parts.append(
            Part("vLLM's weights in sleep mode", asleep, "with LoRA, vLLM uses sleep level 1")
        )
    return breakdown("host", parts)


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

    def to_json(self) -> dict[str, Any]:
        return {
            "bytes": max(0, self.bytes),
            "bytes_per_token": self.per_token,
            "tokens": self.tokens,
            "longest_samples": self.sequences,
        }


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
    samples = format_count(rollout.sequences, "sample")
    how = f"{samples} x {each:,} B ({rollout.longest:,} tokens each)"
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
    each = f"{shape.weights:,} x {rollout.width} B / {format_count(rollout.replica, 'GPU')}"
    return Part(f"{rollout.name} weights", shape.weights * rollout.width // rollout.replica, each)


def _batch(rollout: Rollout, shape: ModelShape) -> int:
    """Activations of vLLM's largest batch: three in the feed-forward part, and two streams."""
    wide = 3 * shape.intermediate // rollout.replica + 2 * shape.hidden
    return rollout.batched_tokens * wide * rollout.width
