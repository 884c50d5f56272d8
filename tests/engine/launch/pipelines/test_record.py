"""A pipeline in the manifest of its run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.base import jsonl
from engine.base.typed import to_json
from engine.launch.pipelines.record import PlannedStage, Record, starts_of
from engine.launch.pipelines.stages import KINDS, Stage
from engine.run.run import Run
from tests.manifests import make_manifest

RECORD = Record(
    "small",
    "small.yaml",
    (
        PlannedStage(Stage("data", KINDS["prepare"], ("x.csv",)), None, is_skipped=True),
        PlannedStage(Stage("sft", KINDS["sft"], ("sft_tiny", "lr=1")), "small-sft"),
    ),
)

WRITTEN = to_json(RECORD.to_record())


def write_start(root: Path, name: str, created: float, record: dict[str, Any]) -> None:
    run = Run(root / name)
    run.path.mkdir()
    jsonl.write_json(run.manifest_file, {"id": name, "created": created, "pipeline": record})


def test_a_record_is_read_as_it_was_written() -> None:
    assert Record.of(make_manifest(pipeline=WRITTEN)) == RECORD
    assert (RECORD.count, RECORD.run_of("sft"), RECORD.run_of("grpo")) == (1, "small-sft", None)


@pytest.mark.parametrize(
    "change",
    [{"stages": []}, {"stages": [1]}, {"stages": [{"name": "x"}]}, {"name": None}, {"file": ""}],
)
def test_a_damaged_record_is_none(change: dict[str, Any]) -> None:
    assert Record.of(make_manifest(pipeline={**WRITTEN, **change})) is None
    assert Record.of(make_manifest(pipeline="small")) is None


def test_the_newest_start_of_this_pipeline_is_the_first(tmp_path: Path) -> None:
    record = WRITTEN
    write_start(tmp_path, "small", 1.0, record)
    write_start(tmp_path, "small-2", 2.0, record)
    write_start(tmp_path, "small-3", 3.0, {**record, "name": "small-3"})
    write_start(tmp_path, "small-sft", 4.0, record)
    assert [run.id for run, _ in starts_of("small", tmp_path)] == ["small-2", "small"]
