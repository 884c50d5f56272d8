"""Can the hardware compute in bfloat16, where the recipe asks for it?

torch computes in bfloat16 on any hardware, by converting back and forth where there are no units,
which is right and many times slower. vLLM refuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pynvml

from engine.preflight.check import Check, fail, warn
from engine.recipe.effective import effective
from engine.recipe.recipe import Recipe
from engine.runs.kinds import SFT

FIRST_WITH_BF16 = (8, 0)
"""Compute capability of Ampere."""
CPU_UNITS = ("avx512_bf16", "amx_bf16", "bf16", "svebf16")
"""As /proc/cpuinfo lists them, of x86 and of ARM."""

_BF16 = ("bf16", "bfloat16", "none", "auto")
"""verl takes bf16 where a type of the computation is not set."""
_ROLLOUT = "actor_rollout_ref.rollout.dtype"
_TRAINER = "actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype"


@dataclass(frozen=True)
class Card:
    """A GPU and its compute capability."""

    name: str
    capability: tuple[int, int]


def check_precision(
    id: str, recipe: Recipe, cards: Sequence[Card], cpu_flags: frozenset[str]
) -> Iterator[Check]:
    """Every value that asks for bfloat16 which the slowest of the GPUs, or the CPU, has not."""
    asked = _asks_for_bf16(recipe)
    if not asked:
        return
    if recipe.get("grubrics.device") == "cpu":
        if not cpu_flags or cpu_flags.intersection(CPU_UNITS):
            return
        said = f"{recipe.path}: {_listed(asked)} on a CPU without units for it (it has none of "
        said += f"{', '.join(CPU_UNITS[:2])}): right, and many times slower than fp32"
        yield warn(id, said, _in_place_of_bf16(recipe, asked, "fp32"))
        return
    weakest = min(cards, key=lambda card: card.capability, default=None)
    if weakest is None or weakest.capability >= FIRST_WITH_BF16:
        return
    capability = ".".join(map(str, weakest.capability))
    said = f"{recipe.path}: {_listed(asked)}, but {weakest.name} has compute capability "
    said += f"{capability}, and bf16 units begin with 8.0: "
    refused = _ROLLOUT in asked and recipe.get("actor_rollout_ref.rollout.name") == "vllm"
    answer = fail if refused else warn
    said += "vLLM refuses it" if refused else "right, and many times slower than fp32"
    yield answer(id, said, _in_place_of_bf16(recipe, asked, "float16"))


def find_cards() -> list[Card]:
    """The NVIDIA GPUs of this machine."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
        return [_card(handle) for handle in handles]
    finally:
        pynvml.nvmlShutdown()


def read_cpu_flags() -> frozenset[str]:
    """What the CPU can do, in the kernel's words; empty where it does not say."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    lines = (line.partition(":") for line in text.splitlines())
    flags = (value for key, _, value in lines if key.strip() in ("flags", "Features"))
    return frozenset(next(flags, "").split())


def _card(handle: object) -> Card:
    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
    return Card(str(pynvml.nvmlDeviceGetName(handle)), (int(major), int(minor)))


def _asks_for_bf16(recipe: Recipe) -> dict[str, str]:
    """The keys that ask for it, each with its value as the trainer gets it."""
    if recipe.kind == SFT:
        return {"training.bf16": "true"} if recipe.get("training.bf16") else {}
    values = effective(recipe, Path("attempt_1"))
    found = {key: str(values.get(key)) for key in (_TRAINER, _ROLLOUT)}
    return {key: value for key, value in found.items() if value.lower() in _BF16}


def _listed(asked: dict[str, str]) -> str:
    return " and ".join(f"{key}={value}" for key, value in asked.items())


def _in_place_of_bf16(recipe: Recipe, asked: dict[str, str], other: str) -> str:
    """SFT has no other types than bf16 and fp32."""
    if recipe.kind == SFT:
        return "training.bf16=false"
    return " ".join(f"{key}={other}" for key in asked)
