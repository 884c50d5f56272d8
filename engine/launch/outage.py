"""Causes of a failure that lie outside a run's configuration, and that can pass by themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from engine.base import jsonl
from engine.base.tail import last_lines
from engine.runs.rundir import Attempt
from engine.runs.state import RunState

_OUTSIDE = {
    "judge_content_filter": "",
    "judge_": "the judge",
    "model_not_found_or_hub": "the model hub or the network",
    "wandb_": "W&B or the network",
    "nccl_timeout_or_error": "the network between the ranks",
    "checkpoint_disk_full": "the disk",
    "permission_or_fd_limit": "the file system or its limits",
    "port_in_use": "a port that another process held",
    "ray_start_or_worker_died": "a process of the run that died",
    "job_cancelled_or_interrupted": "a signal from outside",
}
"""What an alarm blames, by the beginning of its class; the first match counts. Empty: the
configuration may be to blame."""

_REASONS = (
    (re.compile(r"no space left|disk is full|quota exceeded", re.IGNORECASE), "the disk"),
    (re.compile(r"killed by SIG|from outside"), "a signal from outside"),
    (re.compile(r"(gcs_server|raylet|zygote)\b.* died"), "a process of the run that died"),
    (re.compile(r"machine was restarted|supervisor"), "the machine or its supervisor"),
)
_MEMORY = ("host_oom", "cuda_oom_training", "cuda_oom_rollout")
_FULL, _MOSTLY = 0.8, 0.5
_SAMPLES, _BYTES = 20, 1 << 20


def outside_cause(
    state: RunState, families: Sequence[str], attempt: Attempt | None = None
) -> str | None:
    """What a run failed of that is no matter of its configuration; None where it may be one.

    ``families`` are the classes of its alarms, root first: only the root counts, since the others
    may follow from it. Memory counts where other processes held most of it, by ``attempt``.
    """
    if not families:
        reason = state.reason or ""
        return next((what for seen, what in _REASONS if seen.search(reason)), None)
    root = families[0]
    if root in _MEMORY:
        return _memory_of_others(attempt, "gpu" if root.startswith("cuda") else "host")
    return next((what for start, what in _OUTSIDE.items() if root.startswith(start)), "") or None


def _memory_of_others(attempt: Attempt | None, where: str) -> str | None:
    """Whether memory was nearly full near the end of the attempt, mostly with other processes."""
    if attempt is None or not attempt.system.is_file():
        return None
    samples = [jsonl.parse_line(raw) for raw in last_lines(attempt.system, _SAMPLES, _BYTES)]
    for sample in filter(None, reversed(samples)):
        for used, total, own in _memories(sample, where):
            if used >= _FULL * total and used - own > _MOSTLY * used:
                held = f"{(used - own) / 2**30:.1f} of {total / 2**30:.1f} GiB"
                return f"other processes on the machine, which held {held} of {where} memory"
    return None


def _memories(sample: dict[str, Any], where: str) -> list[tuple[float, float, float]]:
    """``(used, total, the run's own)`` in bytes, of the host or of each GPU."""
    if where == "host":
        run = sample.get("run") or {}
        rows = [(sample.get("mem_used"), sample.get("mem_total"), run.get("pss") or run.get("rss"))]
    else:
        gpus = sample.get("gpus") or []
        rows = [(gpu.get("mem_used"), gpu.get("mem_total"), gpu.get("run_mem")) for gpu in gpus]
    known = [[jsonl.number(value) for value in row] for row in rows]
    return [(row[0], row[1], row[2]) for row in known if None not in row]  # type: ignore[misc]
