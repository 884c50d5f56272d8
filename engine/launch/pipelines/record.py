"""A pipeline in the manifest of its run: which run each stage is, and how far it has come.

The run of a pipeline reads its stages from here, so an edit of the file changes only later runs.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path

from engine.launch.pipelines.stages import KINDS, Stage
from engine.run.manifest import Manifest, PipelineRecord, StageRecord
from engine.run.run import Run, run_ids
from engine.run.state import RunState, observed_state


@dataclass(frozen=True)
class PlannedStage:
    """A stage and its run. Of a skipped stage, ``run`` is the one of an earlier start of the
    pipeline that finished, or None."""

    stage: Stage
    run: str | None
    is_skipped: bool = False

    @classmethod
    def of(cls, written: StageRecord | None) -> PlannedStage | None:
        """The stage of a manifest; None if this version cannot run it."""
        if written is None or written.words is None or not written.name:
            return None
        if written.kind not in KINDS:
            return None
        stage = Stage(written.name, KINDS[written.kind], written.words)
        return cls(stage, written.run, written.skipped)

    def to_record(self) -> StageRecord:
        """As the manifest holds it."""
        stage = self.stage
        return StageRecord(stage.name, stage.kind.name, stage.words, self.run, self.is_skipped)


@dataclass(frozen=True)
class Record:
    """A start of a pipeline."""

    name: str
    file: str
    stages: tuple[PlannedStage, ...]

    @property
    def count(self) -> int:
        """How many stages run."""
        return sum(not planned.is_skipped for planned in self.stages)

    def run_of(self, name: str) -> str | None:
        """The run of a stage; None if the stage is unknown or has none."""
        return next((p.run for p in self.stages if p.stage.name == name), None)

    def to_record(self) -> PipelineRecord:
        """As the manifest holds it."""
        return PipelineRecord(self.name, self.file, tuple(each.to_record() for each in self.stages))

    @classmethod
    def of(cls, manifest: Manifest) -> Record | None:
        """The pipeline of a manifest; None if it describes none that this version can run."""
        written = manifest.pipeline
        if written is None:
            return None
        stages = [stage for each in written.stages if (stage := PlannedStage.of(each))]
        is_whole = stages and len(stages) == len(written.stages)
        if not written.name or not written.file or not is_whole:
            return None
        return cls(written.name, written.file, tuple(stages))


def starts_of(name: str, root: Path) -> list[tuple[Run, Record]]:
    """Every start of the pipeline ``name`` in a runs directory, the newest first."""
    runs = [Run(root / run_id) for run_id in run_ids(root) if _is_start(run_id, name)]
    manifests = [(run, run.read_manifest()) for run in runs]
    manifests.sort(key=lambda item: item[1].created or 0.0, reverse=True)
    records = ((run, Record.of(manifest)) for run, manifest in manifests)
    return [(run, record) for run, record in records if record is not None and record.name == name]


def _is_start(run_id: str, name: str) -> bool:
    """Whether a run may be a start of the pipeline: ``NAME`` or ``NAME-2``."""
    rest = run_id.removeprefix(name)
    return run_id.startswith(name) and (not rest or rest.removeprefix("-").isdecimal())


def final_model(run: Run) -> Path:
    """The folder of the final model of a training run, which may not exist."""
    manifest = run.read_manifest()
    return manifest.working_folder / (manifest.checkpoint_dir or "") / "final"


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

    def to_json(self) -> dict[str, object]:
        fields = asdict(self)
        del fields["has_ended"], fields["went_well"]
        return {**fields, "from": self.next_stage}


def read_status(name: str, root: Path) -> PipelineStatus | None:
    """The newest start of the pipeline ``name``; None if it was never started here."""
    starts = starts_of(name, root)
    return status_of(*starts[0]) if starts else None


def status_of(run: Run, record: Record) -> PipelineStatus:
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
    run = Run(root / str(planned.run))
    if not run.manifest_file.exists():
        return StageStatus(name, kind, None, NOT_LAUNCHED if pipeline.has_ended else PENDING)
    state = observed_state(run)
    finding = None
    if state.state in ("failed", "lost"):
        from engine.doctor.diagnose import diagnose_run  # What executes stages needs no doctor.

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
