"""Check that the run fits into the memory of GPUs and host, and its checkpoints on the disk.

Memory is an estimate. A launch is forbidden if the certain parts (weights, optimizer states, vLLM's
share) do not fit. Upper bounds (activations and logits at the longest allowed sample) only warn.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import psutil

from engine.base.quantities import format_count, format_size
from engine.checks.check import Check, Subject, fail, skip, summary, warn
from engine.checks.estimate.memory import Breakdown, certain
from engine.checks.estimate.report import MARGIN, Sizes, kept, sizes_of, smallest_gpu
from engine.config.load import Config
from engine.config.places import checkpoint_dir, local_folder, lora_rank, model_name
from engine.run.checkpoints.model_folder import free_bytes, parameter_count
from engine.run.kinds import ByKind
from engine.run.trust import folder_complaint

_MEMORY = "memory"

_ROLLOUT = "actor_rollout_ref.rollout"
_SHARE = f"{_ROLLOUT}.gpu_memory_utilization"
_MODEL_LEN = f"{_ROLLOUT}.max_model_len"
_SMALLEST_SHARE = 0.2


def check_memory(subject: Subject) -> Check:
    """Compare the peak of every phase with the smallest GPU, and host memory with the host."""
    config = subject.config
    if config.get("grubrics.device") == "cpu":
        return skip(_MEMORY, "not applicable: grubrics.device=cpu uses no GPU")
    card = smallest_gpu()
    sizes = sizes_of(config, subject.env, card, subject.steps)
    if sizes is None:
        return skip(_MEMORY, f"{model_name(config)}: its size is unknown until it is downloaded")
    peak = sizes.memory.peak
    if card is None:
        return skip(_MEMORY, f"no GPU is visible; besides vLLM's share: {_arithmetic(peak)}")
    problems = []
    for phase in sizes.memory.phases:
        if phase.total > card:
            status = fail if certain(phase) > card else warn
            message = f"{_arithmetic(phase)}, but the GPU has {format_size(card)}"
            problems.append(status(_MEMORY, message, _smaller(config, sizes, phase, card)))
    if (1 - MARGIN) * card < peak.total <= card:
        left = (
            f"only {format_size(card - peak.total)} of {format_size(card)} are left for fragments"
        )
        problems.append(warn(_MEMORY, f"at the limit: {_arithmetic(peak)}; {left}"))
    problems += _cache(sizes)
    problems += _host(sizes.memory.host)
    return summary(_MEMORY, problems, f"{_arithmetic(peak)}, of {format_size(card)}")


def _host(needed: Breakdown) -> Iterator[Check]:
    """The peak of the host is at a save, after hours: memory that others use then is missing."""
    total, free = host_memory()
    if needed.total > total:
        yield warn(_MEMORY, f"{_arithmetic(needed)}, but this host has {format_size(total)}")
    elif needed.total > free:
        now = f"{format_size(free)} of the host's {format_size(total)} are free now"
        yield warn(_MEMORY, f"{_arithmetic(needed)}, but {now}")


def _arithmetic(phase: Breakdown) -> str:
    """Describe a phase and its parts, largest first."""
    parts = sorted(phase.parts, key=lambda part: part.bytes, reverse=True)
    shown = " + ".join(f"{part.name} {format_size(part.bytes)}" for part in parts[:4])
    rest = sum(part.bytes for part in parts[4:])
    more = f" + others {format_size(rest)}" if rest else ""
    return f"{phase.name}: {format_size(phase.total)} = {shown}{more}"


def _smaller(config: Config, sizes: Sizes, phase: Breakdown, card: int) -> str | None:
    """Return the mildest override that makes this phase smaller; it may not suffice."""
    if phase.name == "rollout":
        share = float(config.get(_SHARE)) - (phase.total - card) / card
        lower = math.floor(share * 20) / 20
        offload = "actor_rollout_ref.actor.fsdp_config.optimizer_offload=true"
        return f"{_SHARE}={lower:g}" if lower >= _SMALLEST_SHARE else offload
    if not sizes.training.checkpointing:
        return f"{config.kind.checkpointing_key}=true"
    key = config.kind.micro_batch_key
    size = int(config.get(key) or 0)
    return f"{key}={size // 2}" if size > 1 and size % 2 == 0 else None


def _cache(sizes: Sizes) -> Iterator[Check]:
    """vLLM does not start if its cache cannot hold one sample of the longest allowed length."""
    cache, rollout = sizes.cache, sizes.training.rollout
    if cache is None or rollout is None or sizes.cache_suffices:
        return
    holds = f"vLLM's memory share holds {cache.tokens:,} KV-cache tokens"
    if cache.holds_sample:
        message = f"{holds}, fewer than max_model_len={rollout.model_len:,}"
        yield fail(_MEMORY, message, f"{_MODEL_LEN}={rollout.longest}")
    else:
        message = f"{holds}, less than one sample of {rollout.longest:,}"
        yield fail(_MEMORY, message, f"{_SHARE}={min(0.9, rollout.share + 0.1):g}")


def host_memory() -> tuple[int, int]:
    """The bytes of memory of this host: all, and what is available to a new program."""
    memory = psutil.virtual_memory()
    return int(memory.total), int(memory.available)


_DISK = "disk"
_RUN_BYTES = 512 * 1024**2
"""The files of a run directory: console, metrics, rollouts of some thousand steps."""

_PRUNE = "grubrics-tui prune --keep best,last"
_FEWER = ByKind("disk", grpo="trainer.max_actor_ckpt_to_keep=1", sft="training.save_steps=-1")
_BYTES_FP32 = 4
_ADAM_BYTES = 8  # two fp32 optimizer states for each trained parameter
_LORA_SHARE = 0.06  # adapters and their optimizer states, of the model's size; measured at rank 64
_BILLIONS = re.compile(r"(\d+(?:\.\d+)?)b\b", re.IGNORECASE)


def check_disk(subject: Subject) -> Check:
    """Compare the free space for checkpoints and runs with their estimated sizes."""
    config = subject.config
    size, count = _checkpoint_bytes(subject), kept(config, subject.steps)
    folder = Path(checkpoint_dir(config)).expanduser()
    free, runs_free = free_bytes(folder), free_bytes(subject.runs)
    about = f"about {format_size(size)}" if size else "unknown size"
    estimate = f"{folder}: {format_count(count, 'checkpoint')} of {about}, {format_size(free)} free"
    problems = []
    if count and size > free:
        fix = f"{_PRUNE}, or {config.kind.checkpoint_key}=FOLDER (on a larger disk)"
        problems.append(fail(_DISK, f"{estimate}: no space for a single checkpoint", fix))
    elif count * size > free:
        fix = f"{_PRUNE}, or {_FEWER[config.kind]}"
        problems.append(warn(_DISK, f"{estimate}: no space for all of them", fix))
    if runs_free < _RUN_BYTES:
        message = f"{subject.runs}: {format_size(runs_free)} free, too little for a run"
        problems.append(fail(_DISK, message))
    if (complaint := folder_complaint(subject.runs)) is not None:
        message = f"{complaint}: others could replace your runs with theirs"
        problems.append(warn(_DISK, message, f"chmod +t {subject.runs}"))
    return summary(_DISK, problems, estimate)


def _checkpoint_bytes(subject: Subject) -> int:
    """Estimate the size of one checkpoint; 0 if nothing is known of the model.

    If the model's dimensions are unknown, its number of parameters is used: fp32 parameters and,
    for those that are trained, two optimizer states of Adam.
    """
    sizes = sizes_of(subject.config, subject.env, None, subject.steps)
    if sizes is not None:
        return sizes.checkpoint.total
    name = model_name(subject.config)
    folder = local_folder(name, subject.env)
    parameters = parameter_count(folder) if folder is not None else None
    if parameters is None:
        billions = _BILLIONS.search(name)
        parameters = int(float(billions[1]) * 1e9) if billions else 0
    size = parameters * _BYTES_FP32
    states = int(size * _LORA_SHARE) if lora_rank(subject.config) else parameters * _ADAM_BYTES
    final = size if subject.config.kind.has_final_model else 0
    return size + states + final
