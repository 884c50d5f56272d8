"""Pipelines as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from engine.pipelines.record import PipelineStatus, StageStatus
from grubrics_tui.text.formats import duration


def format_status(status: PipelineStatus, *, with_stages: bool = True) -> Iterator[str]:
    """Yield a line about the pipeline and one for each stage, and how to continue."""
    is_told = any(stage.state in ("failed", "stopped", "lost") for stage in status.stages)
    reason = f": {status.reason}" if status.reason and not is_told else ""
    yield f"pipeline {status.name}  run {status.run}  {status.state}{reason}"
    width = max(len(stage.name) for stage in status.stages)
    if with_stages:
        yield from (f"  {format_stage(stage, width)}" for stage in status.stages)
    if (stage := status.next_stage) is not None:
        yield f"continue: grubrics-tui pipeline {status.file} --from {stage}"


def format_stage(stage: StageStatus, width: int = 0) -> str:
    """``sft  finished  1m 03s  run tiny-sft``; of a failure, its reason and finding, too."""
    parts = [stage.name.ljust(width), stage.state.ljust(8)]
    if stage.duration_s is not None:
        parts.append(duration(stage.duration_s))
    if stage.run is not None:
        parts.append(f"run {stage.run}")
    if stage.reason is not None and stage.state != "finished":
        parts.append(stage.reason)
    if stage.finding is not None:
        parts.append(f"finding: {stage.finding}")
    return "  ".join(parts).rstrip()
