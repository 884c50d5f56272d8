"""verl's FSDP engine with the phases of a curriculum: learning rate, and a record of the weights.

verl imports this module by ``model.external_lib`` before it looks for an engine. The record,
``phases.jsonl`` of the attempt, shows that each phase continues the weights of the one before: it
has the hash of the trained parameters at the end of a phase and at the start of the next.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from verl.workers.engine.base import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

from engine.base import jsonl
from engine.config.curriculum import phase_of
from engine.train.phases import VENDOR, read_phases


@EngineRegistry.register(
    model_type="language_model", backend=["fsdp", "fsdp2"], device="cuda", vendor=VENDOR
)
class PhasedEngine(FSDPEngineWithLMHead):
    """Its scheduler counts the training steps, and a checkpoint keeps that count."""

    def initialize(self) -> None:
        super().initialize()
        self.phases = read_phases(os.environ)
        self.started = 0
        if self.lr_scheduler is not None:
            scale_learning_rate(self.lr_scheduler, self.phases.scale)

    def train_batch(self, *arguments: Any, **options: Any) -> Any:
        step = self.lr_scheduler.last_epoch + 1
        if step != self.started:
            self.started = step
            if self.phases.is_first(step):
                self.record("start", step)
        return super().train_batch(*arguments, **options)

    def lr_scheduler_step(self) -> Any:
        rate = super().lr_scheduler_step()
        step = self.lr_scheduler.last_epoch
        if step in self.phases.ends:
            self.record("end", step)
        return rate

    def record(self, edge: str, step: int) -> None:
        digest = parameters_hash(self.module)
        if self.rank == 0:
            write_edge(phase_of(self.phases.ends, step), edge, step, digest)


def scale_learning_rate(scheduler: Any, scale: Callable[[int], float]) -> None:
    """Multiply the rates of a ``LambdaLR`` by ``scale`` of the training step, from step 1 on."""

    def scaled(rate: Callable[[int], float]) -> Callable[[int], float]:
        return lambda steps: rate(steps) * scale(steps + 1)

    scheduler.lr_lambdas = [scaled(rate) for rate in scheduler.lr_lambdas]
    for group in scheduler.optimizer.param_groups:
        group["lr"] *= scale(1)


def write_edge(phase: int, edge: str, step: int, digest: str) -> None:
    """Append a start or an end of a phase to the attempt's record."""
    record = {"v": 1, "t": time.time(), "phase": phase, "edge": edge, "step": step}
    path = Path(os.environ["GRUBRICS_ATTEMPT_DIR"]) / "phases.jsonl"
    jsonl.append(path, {**record, "parameters_sha256": digest})


def parameters_hash(module: Any) -> str:
    """SHA-256 over the trained parameters: of each rank's part, in the order of the ranks."""
    import torch.distributed as dist

    digest = hashlib.sha256()
    for name, data in _trained(module):
        digest.update(name.encode())
        digest.update(data)
    digests = [digest.hexdigest()]
    if dist.is_initialized():
        digests = [""] * dist.get_world_size()
        dist.all_gather_object(digests, digest.hexdigest())
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def _trained(module: Any) -> Iterator[tuple[str, memoryview]]:
    """Name and bytes of this rank's part of each trained parameter."""
    import torch
    from torch.distributed.tensor import DTensor

    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            local = parameter.detach()
            local = local.to_local() if isinstance(local, DTensor) else local
            yield name, local.cpu().contiguous().view(-1).view(torch.uint8).numpy().data
