"""Estimate what a forward pass keeps for the backward pass, in bytes per token.

Counted tensor by tensor as the Megatron paper does (arXiv 2205.05198, section 4.1), for the
modules of the transformers library: RMSNorm in fp32, rotary positions (which keep nothing of
their input), attention that never stores its scores (arXiv 2205.14135), SwiGLU. The tests compare
the sum with what torch keeps, to the byte.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.checks.estimate.model_shape import ModelShape

FP32 = 4


@dataclass(frozen=True)
class Precision:
    """``compute``: bytes of a number in the forward pass. ``rank``: of LoRA adapters, 0 without."""

    compute: int
    rank: int = 0

    @property
    def trains_all(self) -> bool:
        return self.rank == 0


def layer_bytes(shape: ModelShape, precision: Precision) -> int:
    """Kept by one layer for one token, without gradient checkpointing."""
    norms = shape.norms * _norm(shape, shape.hidden, 1, precision)
    norms += 2 * precision.compute * shape.hidden
    if shape.qk_norm:
        norms += _norm(shape, shape.query, shape.heads, precision)
        norms += _norm(shape, shape.key_value, shape.kv_heads, precision)
    attention = precision.compute * 2 * (shape.query + shape.key_value) + FP32 * shape.heads
    feed_forward = precision.compute * 4 * shape.intermediate
    adapters = precision.compute * precision.rank * len(shape.linears)
    return norms + attention + feed_forward + adapters


def checkpoint_bytes(shape: ModelShape, precision: Precision) -> int:
    """Kept by one layer for one token with gradient checkpointing: its input (arXiv 1604.06174)."""
    return precision.compute * shape.hidden


def outer_bytes(shape: ModelShape, precision: Precision) -> int:
    """Kept for one token by the last norm and the input of the output head."""
    head = precision.compute * shape.hidden if precision.trains_all else 0
    return _norm(shape, shape.hidden, 1, precision) + head


def in_flight_bytes(shape: ModelShape, precision: Precision) -> int:
    """Gradients of one token while the widest part of a layer, the feed-forward, runs backward."""
    return precision.compute * (3 * shape.intermediate + shape.hidden)


def forward_bytes(shape: ModelShape, precision: Precision) -> int:
    """Of one token at the peak of a forward pass that keeps nothing: in the feed-forward part."""
    return precision.compute * (3 * shape.intermediate + 2 * shape.hidden) + FP32 * shape.hidden


def _norm(shape: ModelShape, width: int, groups: int, precision: Precision) -> int:
    """RMSNorm keeps its input in fp32, a scale per group and, to train its weight, its result."""
    number = FP32 if shape.fp32_norms else precision.compute
    result = number * width if precision.trains_all else 0
    return FP32 * width + FP32 * groups + result


@dataclass(frozen=True)
class LogitsUse:
    """What is done with the logits; it decides how many copies of them exist at once."""

    compute: int
    """Bytes of a logit."""
    backward: bool
    entropy: bool
    fused_entropy: bool = False
    """torch.compile fuses softmax and sum, so no copy is stored."""
    scaled: bool = False
    """A temperature other than 1 makes a second tensor."""
    flash: bool = False
    """flash-attn's cross-entropy keeps no log-softmax."""
    soft_capped: bool = False
    """The backward pass of a capped logit needs its tanh (Gemma 2, arXiv 2408.00118)."""

    @property
    def copies(self) -> tuple[tuple[str, int], ...]:
        """``(what, bytes per token and vocabulary entry)``, all there at the peak.

        verl's ``FSDPEngineWithLMHead.prepare_model_outputs``, ``logprobs_from_logits`` and
        ``entropy_from_logits`` (0.9.1). On CUDA autocast gives softmax and log-softmax in fp32.
        """
        eager_entropy = self.entropy and not self.fused_entropy
        log_softmax = self.backward and not self.flash and self._is_half
        return (
            ("logits", self.compute),
            ("tanh of the cap", self.compute if self.soft_capped and self.backward else 0),
            ("divided by the temperature", self.compute if self.scaled else 0),
            ("log-softmax", FP32 if log_softmax else 0),
            ("entropy: softmax and its product", 2 * FP32 if eager_entropy else 0),
            ("entropy: gradients", 4 * FP32 if eager_entropy and self.backward else 0),
            ("gradient", self._gradient(eager_entropy) if self.backward else 0),
        )

    @property
    def _is_half(self) -> bool:
        return self.compute < FP32

    def _gradient(self, eager_entropy: bool) -> int:
        """Beside the other copies, when these are largest.

        flash-attn writes it over the logits where nothing else needs them. Without it, verl frees
        a row's log-softmax (bf16) for the row's gradient, or adds three tensors (fp32): the
        gradients of logsumexp and gather, and their sum. The entropy's gradients come before.
        """
        if self.flash or self._is_half:
            return self.compute if self.entropy else 0
        return 0 if eager_entropy else 3 * FP32

    @property
    def bytes(self) -> int:
        return sum(width for _, width in self.copies)
