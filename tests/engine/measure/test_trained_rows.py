"""Items that the runs behind a target were trained on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.base import jsonl
from engine.base.typed import to_json
from engine.measure.items import read_items
from engine.measure.targets import Target
from engine.measure.trained_rows import trained_rows
from engine.run.checkpoints.ownership import STAMP, Stamp
from engine.run.kinds import GRPO, SFT, Kind
from engine.run.run import Run


def row(question: str, system: str = "") -> dict[str, Any]:
    prompt = [{"role": "user", "content": question}]
    prompt = [{"role": "system", "content": system}, *prompt] if system else prompt
    return {
        "data_source": "sums",
        "prompt": prompt,
        "reward_model": {"ground_truth": "5"},
        "extra_info": {"index": 0},
    }


def leave_run(name: str, kind: Kind, model: str, data: str) -> str:
    """A run that was trained on a file, and the folder of its model."""
    run, folder = Run(Path("runs", name)), Path("checkpoints", name)
    run.path.mkdir(parents=True)
    folder.mkdir(parents=True)
    key = "data.train_files" if kind == GRPO else "data.train_file"
    values = {key: data, kind.model_key: model}
    config = {key: {"value": value, "origin": "file"} for key, value in values.items()}
    contents = {"kind": kind.name, "cwd": str(Path.cwd()), "config": config, "created": 1.0}
    jsonl.write_json(run.manifest_file, contents)
    jsonl.write_json(folder / STAMP, to_json(Stamp(name, 1.0, str(run.path.absolute()), "")))
    return str(folder)


def test_rows_of_the_run_and_of_the_run_before_it_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.Table.from_pylist([row(f"{n} + 1?") for n in range(4)]), "train.parquet")
    asked = {"role": "user", "content": "7 + 1?"}
    talk = {"messages": [asked, {"role": "assistant", "content": "8"}]}
    Path("sft.jsonl").write_text(json.dumps(talk))
    items = [row("1  + 1?", "Be brief."), row("2 + 1?"), row("7 + 1?"), row("9 + 1?")]
    pq.write_table(pa.Table.from_pylist(items), "val.parquet")
    warm = leave_run("warm", SFT, "base", "sft.jsonl")
    made = leave_run("made", GRPO, warm, "train.parquet")
    target = Target("made:4", "checkpoint", f"{made}/global_step_4", "")
    assert trained_rows(target, read_items(Path("val.parquet"))) == {"made": 2, "warm": 1}
    assert trained_rows(Target("base", "model", "base", ""), read_items(Path("val.parquet"))) == {}
