"""Is the software there, and the hardware that the recipe asks for?"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec

from engine.host.environment import gpus, package_version
from engine.judge.providers import find_provider
from engine.preflight.check import Check, Subject, fail, summary, warn
from engine.preflight.precision import check_precision, find_cards, read_cpu_flags
from engine.preflight.versions import check_versions, find_installed
from engine.recipe.keys import verl_version
from engine.recipe.models import lora_rank
from engine.recipe.recipe import Recipe
from engine.recipe.scoring import asks_judge
from engine.runs.kinds import GRPO

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
        yield warn(ID, f"Python {_version()} is untried; 3.11 and 3.12 are tested")


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
            f"verl {installed} is installed; keys and defaults are those of verl {verl_version()}",
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
        message = f"{recipe.path}: trainer.nnodes={recipe.get('trainer.nnodes')}, and one host has "
        message += "one node; several need a Ray cluster (docs/cluster.md)"
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
                f"{name}={subject.env[name]}: vLLM's memory pool refuses expandable segments",
                f"unset {name}",
            )


def _version() -> str:
    return ".".join(str(part) for part in sys.version_info[:3])
