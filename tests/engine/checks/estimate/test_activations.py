"""The bytes that are said to be kept for the backward pass are those that torch keeps."""

from __future__ import annotations

import weakref
from functools import partial
from typing import Any

import pytest

from engine.checks.estimate.activations import (
    LogitsUse,
    Precision,
    checkpoint_bytes,
    layer_bytes,
    outer_bytes,
)
from engine.checks.estimate.model_shape import ModelShape, from_config

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

pytestmark = pytest.mark.slow

BATCH, LENGTH = 2, 64
SMALL = {
    "vocab_size": 500,
    "hidden_size": 128,
    "intermediate_size": 384,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}
FAMILIES = {
    "qwen2": ("Qwen2", {}),
    "qwen3": ("Qwen3", {"head_dim": 64}),
    "llama": ("Llama", {}),
    "gemma": ("Gemma", {"head_dim": 32}),
    "gemma2": ("Gemma2", {"head_dim": 32}),
    "gemma3_text": ("Gemma3Text", {"head_dim": 32}),
}


def build(family: str, layers: int, dtype: Any, rank: int, checkpointing: bool) -> Any:
    prefix, more = FAMILIES[family]
    config = getattr(transformers, f"{prefix}Config")(num_hidden_layers=layers, **SMALL, **more)
    built = f"{prefix.removesuffix('Text')}ForCausalLM"
    model = getattr(transformers, built)(config).to(dtype).train()
    if checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if rank:
        peft = pytest.importorskip("peft")
        model.enable_input_require_grads()
        chosen = peft.LoraConfig(task_type="CAUSAL_LM", r=rank, target_modules="all-linear")
        model = peft.get_peft_model(model, chosen).to(dtype)
    return model


def kept(model: Any) -> int:
    """Bytes of everything a forward pass saves that is no weight, each storage once."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    found: dict[int, Any] = {}

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            found[storage.data_ptr()] = tensor  # held, so that no address is used twice
        return tensor

    tokens = torch.zeros(BATCH, LENGTH, dtype=torch.long)
    positions = torch.arange(LENGTH).expand(BATCH, LENGTH)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = model(input_ids=tokens, position_ids=positions, use_cache=False, logits_to_keep=1)
    assert output.logits.requires_grad
    return sum(tensor.untyped_storage().nbytes() for tensor in found.values())


def shape_of(family: str) -> ModelShape:
    shape = from_config(
        {"model_type": family, "num_hidden_layers": 2, **SMALL, **FAMILIES[family][1]}
    )
    assert shape is not None
    return shape


def shifted_weights(shape: ModelShape) -> int:
    """Bytes of the 1 + weight of a layer's norms in Gemma, once for all tokens."""
    norms = shape.norms * shape.hidden + (2 * shape.head_dim if shape.qk_norm else 0)
    return 4 * norms if shape.fp32_norms else 0


@pytest.mark.parametrize("rank", [0, 8])
@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_layer_keeps_what_is_counted(family: str, width: int, rank: int) -> None:
    dtype = torch.float32 if width == 4 else torch.bfloat16
    more, fewer = (kept(build(family, layers, dtype, rank, False)) for layers in (3, 2))
    shape = shape_of(family)
    measured = (more - fewer - shifted_weights(shape)) / (BATCH * LENGTH)
    assert layer_bytes(shape, Precision(width, rank)) == measured


@pytest.mark.row("A22")
@pytest.mark.parametrize("width", [2, 4])
def test_with_gradient_checkpointing_a_layer_keeps_its_input(width: int) -> None:
    dtype = torch.float32 if width == 4 else torch.bfloat16
    more, fewer = (kept(build("qwen3", layers, dtype, 0, True)) for layers in (3, 2))
    measured = (more - fewer) / (BATCH * LENGTH)
    assert checkpoint_bytes(shape_of("qwen3"), Precision(width)) == measured


@pytest.mark.parametrize("rank", [0, 8])
def test_what_the_end_of_the_model_keeps_is_counted(rank: int) -> None:
    shape, precision = shape_of("qwen2"), Precision(4, rank)
    measured = kept(build("qwen2", 2, torch.float32, rank, True)) / (BATCH * LENGTH)
    counted = outer_bytes(shape, precision) + 2 * checkpoint_bytes(shape, precision)
    ids = 8  # token ids, which the embedding keeps to train its rows
    assert abs(measured - counted) <= ids


def test_log_probabilities_of_bf16_logits_keep_a_log_softmax_in_fp32() -> None:
    """What flash-attn's cross-entropy avoids, measured under autocast as verl calls it."""
    logits = torch.zeros(16, 500, dtype=torch.bfloat16, requires_grad=True)
    found: dict[int, Any] = {}

    def pack(tensor: Any) -> Any:
        found[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        torch.log_softmax(logits.float(), dim=-1).gather(-1, torch.zeros(16, 1, dtype=torch.long))
    widest = max(tensor.untyped_storage().nbytes() for tensor in found.values())
    use = LogitsUse(compute=2, backward=True, entropy=False)
    assert widest == 16 * 500 * dict(use.copies)["log-softmax"]


@pytest.mark.parametrize("width", [2, 4])
def test_adam_keeps_two_moments_in_the_type_of_what_it_trains(width: int) -> None:
    dtype = torch.float32 if width == 4 else torch.bfloat16
    model = build("qwen3", 2, dtype, 8, False)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained)
    for parameter in trained:
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    kept_by_adam = sum(
        state[moment].untyped_storage().nbytes()
        for state in optimizer.state.values()
        for moment in ("exp_avg", "exp_avg_sq")
    )
    adapters = sum(part.weights for part in shape_of("qwen3").lora_parts(8))
    assert kept_by_adam == 2 * adapters * width


class PeakMemory(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The largest sum of bytes of the tensors that exist at once."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = 0
        self._sizes: dict[int, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self._add(tensor.untyped_storage())
        self.bytes = max(self.bytes, sum(self._sizes.values()))
        return result

    def _add(self, storage: Any) -> None:
        if storage._cdata not in self._sizes:
            self._sizes[storage._cdata] = storage.nbytes()
            weakref.finalize(storage, self._sizes.pop, storage._cdata, None)


def peak_of_logits(dtype: Any, backward: bool, entropy: bool, monkeypatch: Any) -> float:
    """Bytes per token and vocabulary entry of what verl does with logits on a GPU.

    There, autocast computes softmax, log-softmax and logsumexp in fp32.
    """
    verl = pytest.importorskip("verl.utils.torch_functional")
    for module in (torch.nn.functional, torch):
        for name in ("softmax", "log_softmax", "logsumexp"):
            if computed := getattr(module, name, None):
                in_fp32 = partial(lambda of, logits, dim: of(logits.float(), dim=dim), computed)
                monkeypatch.setattr(module, name, in_fp32)
    tokens, vocabulary = 192, 3000
    labels = torch.zeros(tokens, dtype=torch.long)
    with PeakMemory() as peak, torch.set_grad_enabled(backward):
        hidden = torch.randn(tokens, 2, dtype=dtype, requires_grad=backward)
        logits = hidden @ torch.randn(2, vocabulary, dtype=dtype)
        loss = -verl.logprobs_from_logits_v2(logits, labels).mean()
        if entropy:
            loss = loss - 0.01 * verl.entropy_from_logits(logits).mean()
        if backward:
            loss.float().backward()
    return peak.bytes / (tokens * vocabulary)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize(
    ("backward", "entropy"), [(True, False), (True, True), (False, True), (False, False)]
)
def test_copies_of_the_logits_are_those_that_torch_makes(
    dtype: str, backward: bool, entropy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = getattr(torch, dtype)
    use = LogitsUse(compute=computed.itemsize, backward=backward, entropy=entropy)
    measured = peak_of_logits(computed, backward, entropy, monkeypatch)
    assert measured == pytest.approx(use.bytes, rel=0.06)
