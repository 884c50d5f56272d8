"""A pipeline in the manifest of its run: which run each stage is.

The run of a pipeline reads its stages from here, so an edit of the file changes only later runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base import jsonl
from engine.pipelines.stages import KINDS, Stage
from engine.runs.rundir import RunDir, run_ids


@dataclass(frozen=True)
class PlannedStage:
    """A stage and its run. Of a skipped stage, ``run`` is the one of an earlier start of the
    pipeline that finished, or None."""

    stage: Stage
    run: str | None
    is_skipped: bool = False


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

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "file": self.file,
            "stages": [
                {
                    "name": planned.stage.name,
                    "kind": planned.stage.kind.name,
                    "words": list(planned.stage.words),
                    "run": planned.run,
                    "skipped": planned.is_skipped,
                }
                for planned in self.stages
            ],
        }

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> Record | None:
        """The pipeline of a manifest; None if it describes none that this version can run."""
        raw = manifest.get("pipeline")
        if not isinstance(raw, dict) or not isinstance(raw.get("stages"), list):
            return None
        stages = [_planned(item) for item in raw["stages"]]
        name, file = jsonl.line(raw.get("name")), jsonl.line(raw.get("file"))
        if not name or not file or not stages or None in stages:
            return None
        return cls(name, file, tuple(stage for stage in stages if stage is not None))


def _planned(raw: object) -> PlannedStage | None:
    if not isinstance(raw, dict):
        return None
    name, kind, run = (jsonl.line(raw.get(key)) for key in ("name", "kind", "run"))
    words = raw.get("words")
    if not name or kind not in KINDS or not isinstance(words, list):
        return None
    stage = Stage(name, KINDS[kind], tuple(str(word) for word in words))
    return PlannedStage(stage, run, raw.get("skipped") is True)


def starts_of(name: str, root: Path) -> list[tuple[RunDir, Record]]:
    """Every start of the pipeline ``name`` in a runs directory, the newest first."""
    runs = [RunDir(root / run_id) for run_id in run_ids(root) if _is_start(run_id, name)]
    manifests = [(run, run.read_manifest("pipeline", "created")) for run in runs]
    manifests.sort(key=lambda item: item[1].get("created") or 0.0, reverse=True)
    records = ((run, Record.from_manifest(manifest)) for run, manifest in manifests)
    return [(run, record) for run, record in records if record is not None and record.name == name]


def _is_start(run_id: str, name: str) -> bool:
    """Whether a run may be a start of the pipeline: ``NAME`` or ``NAME-2``."""
    rest = run_id.removeprefix(name)
    return run_id.startswith(name) and (not rest or rest.removeprefix("-").isdecimal())


def final_model(run: RunDir) -> Path:
    """The folder of the final model of a training run, which may not exist."""
    manifest = run.read_manifest()
    folder = Path(manifest.get("cwd") or ".") / (manifest.get("checkpoint_dir") or "")
    return folder / "final"
