"""Files larger than anybody writes them cost neither memory nor a screen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.base.errors import UsageError
from engine.run.columns import RunRow
from engine.run.index import Index
from engine.run.registry import list_runs
from engine.run.run import Run, find_run
from engine.run.state import RunState, recorded_state, write_state


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Run(tmp_path / "runs" / "one")
    run.path.mkdir(parents=True)
    return run


def test_a_huge_manifest_is_refused_in_one_line(run: Run) -> None:
    with run.manifest_file.open("wb") as file:
        file.truncate(200 << 20)
    with pytest.raises(UsageError, match=r"manifest\.json: 200\.0 MiB, .* at most 16"):
        find_run(run.path.parent, "one")
    assert run.read_manifest().is_empty


def test_the_list_keeps_little_of_long_texts(run: Run, tmp_path: Path) -> None:
    long = "x" * 1_000_000
    run.manifest_file.write_text(json.dumps({"v": 1, "recipe": long, "kind": long}))
    write_state(run, RunState("failed", reason=long))
    index = Index(run.path.parent, RunRow, tmp_path / "index.sqlite")
    (info,) = list_runs(run.path.parent, index)
    assert len(info.config) == 200
    state = recorded_state(run)
    assert state is not None and len(state.reason or "") == 2000
    assert (tmp_path / "index.sqlite").stat().st_size < 100_000
