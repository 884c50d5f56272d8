"""How far a pipeline has come: the state of each stage, from the files of its runs."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.doctor.diagnose import diagnose_run
from engine.pipelines.record import PlannedStage, Record, starts_of
from engine.runs.rundir import RunDir
from engine.runs.state import RunState, observed_state

SKIPPED, PENDING, NOT_LAUNCHED = "skipped", "pending", "not launched"
"""States of a stage without a run in this start; other states are those of its run."""


@dataclass(frozen=True)
class StageStatus:
    """The state of one stage. ``run`` is the run whose outputs later stages use."""

    name: str
    kind: str
    run: str | None
    state: str
    reason: str | None = None
    duration_s: float | None = None
    finding: str | None = None
    """The title of the finding that explains why it failed."""

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will happen to the stage."""
        return self.state in (SKIPPED, NOT_LAUNCHED) or self.state in _ENDED


_ENDED = ("finished", "stopped", "failed", "lost")


@dataclass(frozen=True)
class PipelineStatus:
    """The newest start of a pipeline."""

    name: str
    file: str
    run: str
    state: str
    reason: str | None
    stages: tuple[StageStatus, ...]
    has_ended: bool
    went_well: bool

    @property
    def next_stage(self) -> str | None:
        """The stage from which a start that did not finish can be continued."""
        if self.went_well or not all((self.has_ended, *(s.has_ended for s in self.stages))):
            return None
        return next((s.name for s in self.stages if s.state not in ("finished", SKIPPED)), None)

    def to_json(self) -> dict[str, Any]:
        fields = asdict(self)
        del fields["has_ended"], fields["went_well"]
        return {**fields, "from": self.next_stage}


def read_status(name: str, root: Path) -> PipelineStatus | None:
    """The newest start of the pipeline ``name``; None if it was never started here."""
    starts = starts_of(name, root)
    return status_of(*starts[0]) if starts else None


def status_of(run: RunDir, record: Record) -> PipelineStatus:
    """The state of a start of a pipeline and of its stages."""
    state = observed_state(run)
    stages = tuple(_stage_status(planned, run.path.parent, state) for planned in record.stages)
    if state.has_ended and not state.went_well:
        stages = _with_refusal(stages, state)
    reason = state.reason or state.waiting_for
    return PipelineStatus(
        record.name,
        record.file,
        run.id,
        state.word,
        reason,
        stages,
        state.has_ended,
        state.went_well,
    )


def _stage_status(planned: PlannedStage, root: Path, pipeline: RunState) -> StageStatus:
    name, kind = planned.stage.name, planned.stage.kind.name
    if planned.is_skipped:
        return StageStatus(name, kind, planned.run, SKIPPED)
    run = RunDir(root / str(planned.run))
    if not run.manifest.exists():
        return StageStatus(name, kind, None, NOT_LAUNCHED if pipeline.has_ended else PENDING)
    state = observed_state(run)
    finding = None
    if state.state in ("failed", "lost"):
        findings = diagnose_run(run)
        finding = findings[0].title if findings else None
    reason = state.reason or state.waiting_for
    return StageStatus(name, kind, run.id, state.word, reason, _duration(state), finding)


def _duration(state: RunState) -> float | None:
    if state.started is None:
        return None
    return max(0.0, (state.ended or time.time()) - state.started)


def _with_refusal(stages: tuple[StageStatus, ...], state: RunState) -> tuple[StageStatus, ...]:
    """The stages with the pipeline's reason at the one that could not be launched, if one was
    refused: the first without a run, after stages that all finished."""
    for index, stage in enumerate(stages):
        if stage.state == NOT_LAUNCHED and state.state == "failed":
            refused = StageStatus(stage.name, stage.kind, None, "failed", state.reason)
            return (*stages[:index], refused, *stages[index + 1 :])
        if stage.state not in ("finished", SKIPPED):
            break
    return stages
