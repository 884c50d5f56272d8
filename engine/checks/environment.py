"""Check the installed software, and the hardware that the config asks for."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution
from importlib.util import find_spec
from pathlib import Path

import pynvml
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from engine.base.judge_providers import find_provider
from engine.base.quantities import format_count
from engine.base.text import format_config_value
from engine.checks.check import Check, Subject, fail, summary, tables, warn
from engine.config.compose import effective, on_cpu
from engine.config.keys import verl_version
from engine.config.load import Config
from engine.config.places import lora_rank
from engine.config.scoring import asks_judge
from engine.run.host.environment import gpus, install_command, package_version
from engine.run.kinds import GRPO, SFT

ID = "environment"
CONDA_ENVIRONMENT = "RL"
TESTED_PYTHONS = ((3, 11), (3, 12))

_MODEL = "actor_rollout_ref.model"
_ROLLOUT = "actor_rollout_ref.rollout"
_STRATEGY = "actor_rollout_ref.actor.strategy"
_MAIN_PACKAGES = ("torch", "verl", "ray", "transformers")


def check(subject: Subject) -> Check:
    """Check Python, packages (looked up, never imported), conda environment and GPUs."""
    config = subject.config
    python = ".".join(map(str, sys.version_info[:3]))
    problems = []
    if sys.version_info[:2] not in TESTED_PYTHONS:
        problems.append(warn(ID, f"Python {python} is untested; use 3.11 or 3.12"))
    conda = subject.env.get("CONDA_DEFAULT_ENV")
    if conda not in (None, CONDA_ENVIRONMENT) and _has_own_environment(subject.env):
        message = f"conda environment '{conda}' is active, not '{CONDA_ENVIRONMENT}'"
        problems.append(warn(ID, message, f"conda activate {CONDA_ENVIRONMENT}"))
    lacks_gpu = _lacks_gpu(subject)
    problems += _packages(config, lacks_gpu)
    problems += check_versions(
        find_installed(),
        vllm=config.get(f"{_ROLLOUT}.name") == "vllm",
        # The rollout engine gets LoRA adapters instead of merged weights.
        adapter_sync=lora_rank(config) > 0 and not config.get(f"{_MODEL}.lora.merge"),
        fsdp1=config.get("grubrics.device") == "cuda" and config.get(_STRATEGY) == "fsdp",
    )
    if not (config.kind.uses_ray and subject.uses_cluster):
        problems += [*_devices(subject), *check_precision(config, find_cards(), read_cpu_flags())]
    # Without a GPU, the config has to change first: what vLLM and FlashAttention need is no fix.
    problems += [] if lacks_gpu else _attention(subject)
    problems += _allocator(subject)
    versions = ", ".join(f"{name} {package_version(name)}" for name in _MAIN_PACKAGES)
    device = config.get("grubrics.device")
    return summary(ID, problems, f"Python {python}; {versions}; device {device}")


def _has_own_environment(env: Mapping[str, str]) -> bool:
    """Whether conda may have the project's environment: beside the active one, or below base."""
    prefix = Path(env.get("CONDA_PREFIX", ""))
    known = (prefix.with_name(CONDA_ENVIRONMENT), prefix / "envs" / CONDA_ENVIRONMENT)
    return "CONDA_PREFIX" not in env or any(folder.is_dir() for folder in known)


def needed_modules(config: Config) -> list[str]:
    """Return the modules that training with this config imports."""
    loggers = config.listed(config.kind.loggers_key)
    judge = find_provider(config.get("judge.provider", "offline")) if asks_judge(config) else None
    optional = {
        **dict.fromkeys(judge.modules if judge else (), True),
        **{package: True for name, package in tables()["loggers"].items() if name in loggers},
        "peft": lora_rank(config) > 0,
        "vllm": config.get(f"{_ROLLOUT}.name") == "vllm",
    }
    return [*tables()["modules"], *(name for name, is_needed in optional.items() if is_needed)]


def _packages(config: Config, lacks_gpu: bool) -> Iterator[Check]:
    needed = [name for name in needed_modules(config) if not (lacks_gpu and name == "vllm")]
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        fix = f"pip install {' '.join(missing)}"
        if "vllm" in missing:
            fix = install_command("gpu")  # It includes the extra train.
        elif {*missing} & {*tables()["modules"], "peft", "openai"}:
            fix = install_command("train")
        yield fail(ID, f"not installed: {', '.join(missing)}", fix)
    installed = package_version("verl")
    if installed is not None and installed != verl_version():
        yield warn(
            ID,
            f"verl {installed} is installed; keys and defaults here are for verl {verl_version()}",
            f"pip install verl=={verl_version()}",
        )


def _devices(subject: Subject) -> Iterator[Check]:
    """Check that this host has the GPUs, or the cores, that the config asks for."""
    config = subject.config
    if config.kind.uses_ray and config.get("trainer.nnodes", 1) > 1:
        message = (
            f"{config.path}: trainer.nnodes={config.get('trainer.nnodes')}, but one host is one "
            "node; use a Ray cluster for more (docs/cluster.md)"
        )
        yield fail(ID, message, "export RAY_ADDRESS=HOST:PORT, or trainer.nnodes=1")
    key = config.kind.gpus_key
    wanted, cores = config.get(key), os.cpu_count()
    if config.get("grubrics.device") != "cuda":
        # Each rank is a process with a copy of the model; two ranks are a test on any CPU.
        most = max(2, cores or 1)
        if wanted > most:
            message = f"{config.path}: {key}={wanted} ranks on {format_count(cores or 1, 'core')}"
            yield fail(ID, f"{message}; each trains a copy of the model", f"{key}={most}")
        return
    visible = _count_gpus(subject.env)
    if wanted > visible:
        yield fail(
            ID,
            f"{config.path}: grubrics.device=cuda and {key}={wanted}, but {visible} NVIDIA GPUs "
            "are visible here",
            f"{key}={visible}" if visible else " ".join(_cpu_overrides(config)),
        )


def _count_gpus(env: Mapping[str, str]) -> int:
    """The GPUs of this host that ``CUDA_VISIBLE_DEVICES`` shows."""
    count = len(gpus())
    if (allowed := env.get("CUDA_VISIBLE_DEVICES")) is None:
        return count
    return min(count, len([name for name in allowed.split(",") if name.strip() not in ("", "-1")]))


def _lacks_gpu(subject: Subject) -> bool:
    """Whether the config trains on GPUs of this host, and it has none."""
    is_here = not (subject.config.kind.uses_ray and subject.uses_cluster)
    is_for_gpu = subject.config.get("grubrics.device") == "cuda"
    return is_here and is_for_gpu and not _count_gpus(subject.env)


def _cpu_overrides(config: Config) -> Iterator[str]:
    """The CPU, and what it implies in place of values that the config sets for GPUs."""
    implied = on_cpu(config) if config.kind == GRPO else {"training.bf16": False}
    yield "grubrics.device=cpu"
    for key, value in {**implied, config.kind.gpus_key: 1}.items():
        if config.is_chosen(key) and config.get(key) != value:
            yield f"{key}={format_config_value(value)}"


def _attention(subject: Subject) -> Iterator[Check]:
    """verl uses FlashAttention 2 on a GPU by default."""
    config = subject.config
    on_local_gpu = config.get("grubrics.device") == "cuda" and not subject.uses_cluster
    if config.kind != GRPO or not on_local_gpu:
        return
    key = f"{_MODEL}.override_config.attn_implementation"
    implementation = config.get(key) or "flash_attention_2"
    is_installed = any(find_spec(name) for name in ("flash_attn", "kernels"))
    if implementation.startswith("flash_attention") and not is_installed:
        yield fail(
            ID,
            f"{config.path}: {key}={implementation} needs flash-attn, which is not installed",
            f"{key}=sdpa {_MODEL}.use_remove_padding=false",
        )


def _allocator(subject: Subject) -> Iterator[Check]:
    if subject.config.get(f"{_ROLLOUT}.name") != "vllm":
        return
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        value = subject.env.get(name, "")
        if "expandable_segments:true" in value.lower():
            message = f"{name}={value}: vLLM's memory pool does not support expandable segments"
            yield fail(ID, message, f"unset {name}")


GPU_SET = ("vllm==0.24.0", "torch==2.11.0", "transformers==5.10.4")
"""The main pins of constraints-gpu.txt: the vLLM that verl 0.9.1 was released with."""

Installed = Mapping[str, Distribution]
"""Distributions by canonical name."""


PEFT_WITH_FSDP1 = SpecifierSet("<0.21")
"""The releases of PEFT that find LoRA adapters in a model that FSDP 1 wraps."""


def find_installed(path: Sequence[str] | None = None) -> dict[str, Distribution]:
    """The installed distributions of the stack; ``path`` replaces ``sys.path``."""
    searched = list(sys.path if path is None else path)
    matches = {name: Distribution.discover(name=name, path=searched) for name in tables()["stack"]}
    first = {name: next(iter(found), None) for name, found in matches.items()}
    return {name: package for name, package in first.items() if package is not None}


def check_versions(
    installed: Installed, *, vllm: bool, adapter_sync: bool, fsdp1: bool = False
) -> Iterator[Check]:
    """Check that the installed packages fit together, as far as a config uses them.

    ``vllm``: the config generates with vLLM. ``adapter_sync``: it sends LoRA adapters to the
    rollout engine. ``fsdp1``: it trains with torch's first FSDP.
    """
    used = {name: package for name, package in installed.items() if vllm or name != "vllm"}
    # What the packages require of each other, as pip would check it.
    for name, package in used.items():
        for requirement in _requirements(package):
            needed = used.get(canonicalize_name(requirement.name))
            if needed is not None and not _contains(requirement.specifier, needed.version):
                yield _mismatch(name, package.version, requirement, needed.version, used)
    if "vllm" in used:
        yield from _check_vllm(used, adapter_sync)
    if adapter_sync and fsdp1:
        yield from _check_peft(used)


def _mismatch(
    name: str, version: str, requirement: Requirement, present: str, installed: Installed
) -> Check:
    message = f"{requirement.name} {present} is installed; {name} {version} needs {requirement}"
    # verl may refuse what vLLM requires: replace vLLM, not the packages that it requires.
    fix = f'pip install "{requirement.name}{requirement.specifier}"'
    if name == "vllm":
        fix = _vllm_command(installed)
    # A release newer than the declared range may work. An older one, or another build, does not.
    too_new = all(
        clause.operator in ("<", "<=") or clause.contains(present, prereleases=True)
        for clause in requirement.specifier
    )
    return warn(ID, message, fix) if too_new else fail(ID, message, fix)


def _check_vllm(installed: Installed, adapter_sync: bool) -> Iterator[Check]:
    version, verl = installed["vllm"].version, f"verl {verl_version()}"
    support = vllm_support(version)
    fix = _vllm_command(installed)
    if support == "too old":
        yield fail(ID, f"vllm {version} is too old for {verl}", fix)
    elif support == "no LoRA" and adapter_sync:
        yield fail(
            ID,
            f"{verl} cannot send a LoRA adapter to vllm {version}: the first weight sync ends with "
            "an AttributeError (get_unstacked_mapper)",
            fix,
        )
    elif support != "fits":
        yield warn(ID, f"vllm {version} is untested with {verl}; use 0.24 to 0.28", fix)


def vllm_support(version: str) -> str:
    """Whether verl works with a vLLM release: "fits", "untried", "no LoRA" or "too old"."""
    ranges: Mapping[str, str] = tables()["vllm"]
    matching = (word for limits, word in ranges.items() if _contains(SpecifierSet(limits), version))
    return next(matching)


def _check_peft(installed: Installed) -> Iterator[Check]:
    """From 0.21 on, PEFT looks for adapters under names that FSDP 1 changes, and finds none."""
    peft = installed.get("peft")
    if peft is not None and not _contains(PEFT_WITH_FSDP1, peft.version):
        yield fail(
            ID,
            f"with peft {peft.version} and {_STRATEGY}=fsdp, verl {verl_version()} sends no LoRA "
            "adapter to the rollout engine",
            f'pip install "peft{PEFT_WITH_FSDP1}"',
        )


def _vllm_command(installed: Installed) -> str:
    """Return the command that installs the vLLM for the installed torch, or else the whole set."""
    torch = installed.get("torch")
    release = Version(torch.version).release[:2] if torch else ()
    pin = tables()["vllm_for_torch"].get(".".join(map(str, release)))
    pins = (pin,) if pin else GPU_SET
    return "pip install " + " ".join(f'"{pin}"' for pin in pins)


def _requirements(distribution: Distribution) -> Iterator[Requirement]:
    """Yield the requirements without those of extras and without unreadable lines."""
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
"""The units for bf16 of x86 and ARM, as named in /proc/cpuinfo."""

_BF16 = ("bf16", "bfloat16", "none", "auto")
"""verl uses bf16 if a type is not set."""
_ROLLOUT_TYPE = f"{_ROLLOUT}.dtype"
_ACTOR_TYPE = "actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype"


@dataclass(frozen=True)
class Card:
    """A GPU and its compute capability."""

    name: str
    capability: tuple[int, ...]


def check_precision(
    config: Config, cards: Sequence[Card], cpu_flags: frozenset[str]
) -> Iterator[Check]:
    """Check that the slowest GPU, or the CPU, has units for bf16 if the config uses it."""
    settings = _bf16_settings(config)
    used = f"{config.path}: {' and '.join(f'{key}={value}' for key, value in settings.items())}"
    slow = "correct, but many times slower than fp32"
    weakest = min(cards, key=lambda card: card.capability, default=None)
    if not settings:
        return
    if config.get("grubrics.device") == "cpu":
        if cpu_flags and not cpu_flags.intersection(CPU_UNITS):
            units = ", ".join(CPU_UNITS[:2])
            message = f"{used} on a CPU without units for it (it has none of {units}): {slow}"
            yield warn(ID, message, _replace_bf16(config, settings, "fp32"))
    elif weakest is not None and weakest.capability < FIRST_WITH_BF16:
        capability = ".".join(map(str, weakest.capability))
        is_refused = _ROLLOUT_TYPE in settings and config.get(f"{_ROLLOUT}.name") == "vllm"
        message = (
            f"{used}, but {weakest.name} has compute capability {capability}, and bf16 units need "
            f"at least 8.0: {'vLLM refuses it' if is_refused else slow}"
        )
        fix = _replace_bf16(config, settings, "float16")
        yield (fail if is_refused else warn)(ID, message, fix)


def find_cards() -> list[Card]:
    """The NVIDIA GPUs of this machine."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
        return [
            Card(
                str(pynvml.nvmlDeviceGetName(handle)),
                tuple(map(int, pynvml.nvmlDeviceGetCudaComputeCapability(handle))),
            )
            for handle in handles
        ]
    finally:
        pynvml.nvmlShutdown()


def read_cpu_flags() -> frozenset[str]:
    """Read the features of the CPU, as the kernel names them; empty if it does not list them."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    lines = (line.partition(":") for line in text.splitlines())
    flags = (value for key, _, value in lines if key.strip() in ("flags", "Features"))
    return frozenset(next(flags, "").split())


def _bf16_settings(config: Config) -> dict[str, str]:
    """Return the keys that ask for bf16, with their values as the trainer gets them."""
    if config.kind == SFT:
        return {"training.bf16": "true"} if config.get("training.bf16") else {}
    values = effective(config, Path("attempt_1"))
    types = {key: str(values.get(key)) for key in (_ACTOR_TYPE, _ROLLOUT_TYPE)}
    return {key: type_ for key, type_ in types.items() if type_.lower() in _BF16}


def _replace_bf16(config: Config, settings: Mapping[str, str], type_: str) -> str:
    """Return the overrides for another type. SFT has only bf16 and fp32."""
    if config.kind == SFT:
        return "training.bf16=false"
    return " ".join(f"{key}={type_}" for key in settings)
