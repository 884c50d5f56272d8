"""Check the installed software, and the hardware that the config asks for."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import pynvml
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from engine.host.environment import gpus, package_version
from engine.judge.providers import find_provider
from engine.preflight.check import Check, Subject, fail, summary, warn
from engine.recipe.compose import effective
from engine.recipe.keys import verl_version
from engine.recipe.places import lora_rank
from engine.recipe.recipe import Recipe
from engine.recipe.scoring import asks_judge
from engine.runs.kinds import GRPO, SFT

ID = "environment"
CONDA_ENVIRONMENT = "RL"
TESTED_PYTHONS = ((3, 11), (3, 12))
TRAIN_EXTRA = 'pip install "grubrics-tui[train]"'
GPU_EXTRA = 'pip install "grubrics-tui[gpu]"'

# verl imports more than it declares: TransferQueue, cachetools and uvicorn are not its own
# dependencies, yet no run starts without them.
_MODULES = (
    "torch",
    "verl",
    "ray",
    "transformers",
    "tensordict",
    "transfer_queue",
    "cachetools",
    "uvicorn",
)
_LOGGERS = {
    "wandb": "wandb",
    "mlflow": "mlflow",
    "swanlab": "swanlab",
    "tensorboard": "tensorboard",
    "clearml": "clearml",
    "trackio": "trackio",
    "vemlp_wandb": "volcengine_ml_platform",
}
"""The packages of verl's loggers."""
_SHOWN = ("torch", "verl", "ray", "transformers")


def check(subject: Subject) -> Check:
    """Python, packages (looked up, never imported), conda environment, GPUs."""
    found = [
        *_python(),
        *_conda(subject),
        *_packages(subject.recipe),
        *_versions(subject.recipe),
        *_gpus(subject),
        *_precision(subject),
        *_attention(subject),
        *_allocator(subject),
    ]
    versions = ", ".join(f"{name} {package_version(name)}" for name in _SHOWN)
    device = subject.recipe.get("grubrics.device")
    return summary(ID, found, f"Python {_version()}; {versions}; device {device}")


def needed_modules(recipe: Recipe) -> list[str]:
    """The modules that training with this recipe imports."""
    loggers = recipe.get("trainer.logger") or recipe.get("logging.report_to") or []
    judge = find_provider(recipe.get("judge.provider", "offline")) if asks_judge(recipe) else None
    optional = {
        **dict.fromkeys(judge.modules if judge else (), True),
        **{_LOGGERS[name]: True for name in _LOGGERS if name in loggers},
        "peft": lora_rank(recipe) > 0,
        "vllm": recipe.get("actor_rollout_ref.rollout.name") == "vllm",
    }
    return [*_MODULES, *(name for name, needed in optional.items() if needed)]


def _python() -> Iterator[Check]:
    if sys.version_info[:2] not in TESTED_PYTHONS:
        yield warn(ID, f"Python {_version()} is untested; use 3.11 or 3.12")


def _conda(subject: Subject) -> Iterator[Check]:
    active = subject.env.get("CONDA_DEFAULT_ENV")
    if active is not None and active != CONDA_ENVIRONMENT:
        yield warn(
            ID,
            f"conda environment '{active}' is active, not '{CONDA_ENVIRONMENT}'",
            f"conda activate {CONDA_ENVIRONMENT}",
        )


def _packages(recipe: Recipe) -> Iterator[Check]:
    missing = [name for name in needed_modules(recipe) if find_spec(name) is None]
    if missing:
        ours = [name for name in missing if name in {*_MODULES, "peft", "openai"}]
        extra = GPU_EXTRA if missing == ["vllm"] else TRAIN_EXTRA
        extra = extra if ours or "vllm" in missing else f"pip install {' '.join(missing)}"
        yield fail(ID, f"not installed: {', '.join(missing)}", extra)
    installed = package_version("verl")
    if installed is not None and installed != verl_version():
        yield warn(
            ID,
            f"verl {installed} is installed; keys and defaults here are for verl {verl_version()}",
            f"pip install verl=={verl_version()}",
        )


def _versions(recipe: Recipe) -> Iterator[Check]:
    """Whether what is installed fits together, as far as this recipe uses it."""
    model = "actor_rollout_ref.model"
    adapters = lora_rank(recipe) > 0 and not recipe.get(f"{model}.lora.merge")
    yield from check_versions(
        find_installed(),
        vllm=recipe.get("actor_rollout_ref.rollout.name") == "vllm",
        adapter_sync=adapters,
    )


def _gpus(subject: Subject) -> Iterator[Check]:
    recipe, address = subject.recipe, subject.env.get("RAY_ADDRESS", "")
    elsewhere = recipe.kind.uses_ray and address not in ("", "local")
    if elsewhere:
        return
    if recipe.kind.uses_ray and recipe.get("trainer.nnodes", 1) > 1:
        message = f"{recipe.path}: trainer.nnodes={recipe.get('trainer.nnodes')}, but one host is "
        message += "one node; use a Ray cluster for more (docs/cluster.md)"
        yield fail(ID, message, "export RAY_ADDRESS=HOST:PORT, or trainer.nnodes=1")
    key = recipe.kind.gpus_key
    if recipe.get("grubrics.device") != "cuda":
        yield from _cores(recipe, key)
        return
    wanted, present = recipe.get(key), _visible_gpus(subject)
    if wanted > present:
        yield fail(
            ID,
            f"{recipe.path}: grubrics.device=cuda and {key}={wanted}, but {present} NVIDIA GPUs "
            "are visible here",
            f"{key}={present}" if present else "grubrics.device=cpu",
        )


def _cores(recipe: Recipe, key: str) -> Iterator[Check]:
    """On a CPU every rank is a process with a copy of the model; two are a test of ranks."""
    wanted, most = recipe.get(key), max(2, os.cpu_count() or 1)
    if wanted > most:
        message = f"{recipe.path}: {key}={wanted} ranks on {os.cpu_count()} cores"
        yield fail(ID, f"{message}; each trains a copy of the model", f"{key}={most}")


def _precision(subject: Subject) -> Iterator[Check]:
    recipe, address = subject.recipe, subject.env.get("RAY_ADDRESS", "")
    if not recipe.kind.uses_ray or address in ("", "local"):
        yield from check_precision(ID, recipe, find_cards(), read_cpu_flags())


def _attention(subject: Subject) -> Iterator[Check]:
    """verl asks for FlashAttention 2 unless the recipe says otherwise; on a CPU it does not."""
    recipe, model = subject.recipe, "actor_rollout_ref.model"
    key = f"{model}.override_config.attn_implementation"
    chosen = recipe.get(key) or "flash_attention_2"
    available = any(find_spec(name) for name in ("flash_attn", "kernels"))
    if _trains_here_on_gpu(subject) and chosen.startswith("flash_attention") and not available:
        yield fail(
            ID,
            f"{recipe.path}: {key}={chosen} needs flash-attn, which is not installed",
            f"{key}=sdpa {model}.use_remove_padding=false",
        )


def _trains_here_on_gpu(subject: Subject) -> bool:
    """Whether GRPO would start on GPUs of this machine, not of a Ray cluster."""
    recipe, address = subject.recipe, subject.env.get("RAY_ADDRESS", "")
    here = address in ("", "local")
    return recipe.kind == GRPO and recipe.get("grubrics.device") == "cuda" and here


def _visible_gpus(subject: Subject) -> int:
    present = len(gpus())
    allowed = subject.env.get("CUDA_VISIBLE_DEVICES")
    if allowed is None:
        return present
    listed = [name for name in allowed.split(",") if name.strip() not in ("", "-1")]
    return min(present, len(listed))


def _allocator(subject: Subject) -> Iterator[Check]:
    uses_vllm = subject.recipe.get("actor_rollout_ref.rollout.name") == "vllm"
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        if uses_vllm and "expandable_segments:true" in subject.env.get(name, "").lower():
            yield fail(
                ID,
                f"{name}={subject.env[name]}: vLLM's memory pool does not support expandable "
                "segments",
                f"unset {name}",
            )


def _version() -> str:
    return ".".join(str(part) for part in sys.version_info[:3])


STACK = (
    "verl",
    "vllm",
    "torch",
    "transformers",
    "ray",
    "tensordict",
    "transferqueue",
    "peft",
    "torchdata",
    "numpy",
    "flash-attn",
)
"""The distributions whose versions depend on each other, by canonical name."""

GPU_SET = ("vllm==0.24.0", "torch==2.11.0", "transformers==5.10.4")
"""The heart of constraints-gpu.txt: the vLLM that verl 0.9.1 was released with."""

Installed = Mapping[str, Distribution]
"""Distributions by canonical name."""


@dataclass(frozen=True)
class VllmRow:
    """A range of vLLM releases and what verl 0.9.1 makes of it."""

    releases: SpecifierSet
    verdict: Literal["fits", "untried", "no LoRA", "too old"]


VLLM_TABLE = (
    VllmRow(SpecifierSet("<0.18"), "too old"),
    VllmRow(SpecifierSet(">=0.18,<0.24"), "untried"),
    VllmRow(SpecifierSet(">=0.24,<0.29"), "fits"),
    VllmRow(SpecifierSet(">=0.29"), "no LoRA"),
)
# vLLM and torch are built for each other: the release that fits, by the torch that is there.
_VLLM_FOR_TORCH = {"2.11": "vllm==0.24.0", "2.13": "vllm==0.28.0"}


def find_installed(path: Sequence[str] | None = None) -> dict[str, Distribution]:
    """The installed distributions of the stack; ``path`` replaces ``sys.path``."""
    searched = list(sys.path if path is None else path)
    matches = {name: Distribution.discover(name=name, path=searched) for name in STACK}
    first = {name: next(iter(found), None) for name, found in matches.items()}
    return {name: found for name, found in first.items() if found is not None}


def check_versions(installed: Installed, *, vllm: bool, adapter_sync: bool) -> Iterator[Check]:
    """What does not fit.

    ``vllm``: the recipe generates with vLLM. ``adapter_sync``: it sends LoRA adapters to it.
    """
    used = {name: found for name, found in installed.items() if vllm or name != "vllm"}
    yield from _check_declared(used)
    if "vllm" in used:
        yield from _check_vllm(used, adapter_sync)


def _check_declared(installed: Installed) -> Iterator[Check]:
    """Requirements of the installed packages on each other, as pip would check them."""
    for name, distribution in installed.items():
        for requirement in _requirements(distribution):
            needed = installed.get(canonicalize_name(requirement.name))
            if needed is None or _contains(requirement.specifier, needed.version):
                continue
            yield _mismatch(name, distribution.version, requirement, needed.version, installed)


def _mismatch(
    name: str, version: str, requirement: Requirement, present: str, installed: Installed
) -> Check:
    message = f"{requirement.name} {present} is installed; {name} {version} needs {requirement}"
    # What vLLM asks for may be what verl refuses: the vLLM is exchanged, not its surroundings.
    wanted = f'pip install "{requirement.name}{requirement.specifier}"'
    fix = _vllm_line(installed) if name == "vllm" else wanted
    # A release newer than the declared range may work; an older or another build does not.
    too_new = all(
        clause.operator in ("<", "<=") or clause.contains(present, prereleases=True)
        for clause in requirement.specifier
    )
    return warn(ID, message, fix) if too_new else fail(ID, message, fix)


def _check_vllm(installed: Installed, adapter_sync: bool) -> Iterator[Check]:
    version, verl = installed["vllm"].version, f"verl {verl_version()}"
    row = next(row for row in VLLM_TABLE if _contains(row.releases, version))
    fix = _vllm_line(installed)
    if row.verdict == "too old":
        yield fail(ID, f"vllm {version} is too old for {verl}", fix)
    elif row.verdict == "no LoRA" and adapter_sync:
        yield fail(
            ID,
            f"{verl} cannot send a LoRA adapter to vllm {version}: the first weight sync ends with "
            "an AttributeError (get_unstacked_mapper)",
            fix,
        )
    elif row.verdict != "fits":
        yield warn(ID, f"vllm {version} is untested with {verl}; use 0.24 to 0.28", fix)


def _vllm_line(installed: Installed) -> str:
    """The vLLM for the torch that is installed, or the whole set where none exists for it."""
    torch = installed.get("torch")
    release = Version(torch.version).release[:2] if torch else ()
    fitting = _VLLM_FOR_TORCH.get(".".join(str(part) for part in release))
    pins = (fitting,) if fitting else GPU_SET
    return "pip install " + " ".join(f'"{pin}"' for pin in pins)


def _requirements(distribution: Distribution) -> Iterator[Requirement]:
    """The requirements that hold without extras; an unreadable line is skipped."""
    for line in distribution.requires or ():
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement


def _contains(releases: SpecifierSet, version: str) -> bool:
    return releases.contains(version, prereleases=True)


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
        said += f"{', '.join(CPU_UNITS[:2])}): correct, but many times slower than fp32"
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
    said += "vLLM refuses it" if refused else "correct, but many times slower than fp32"
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
