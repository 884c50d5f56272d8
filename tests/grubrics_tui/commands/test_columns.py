"""A column of the list of runs is one declaration: screen, text, JSON and filters follow it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.base import jsonl
from engine.runs import columns
from engine.runs.columns import Cell, Column
from engine.runs.registry import list_runs
from engine.runs.rundir import RunDir
from engine.runs.state import RunState, write_state
from grubrics_tui.commands.runs import list_runs as print_runs
from grubrics_tui.screens.runs.run_list import Widths, _row

GPUS = Column(
    name="gpus",
    about="GPUs that it may use",
    kind="text",
    value=lambda run: (run.state.gpus or "",),
    key="gpus",
    to_json=lambda run: run.state.gpus,
    cell=Cell(width=8),
)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs on different GPUs, and a list that has a column for them."""
    for name, gpus in (("one", "0,1"), ("two", "7")):
        run = RunDir(tmp_path / name)
        run.path.mkdir()
        jsonl.write_json(run.manifest, {"v": 1, "recipe": "tiny", "kind": "sft"})
        write_state(run, RunState("failed", started=1e9, ended=1e9 + 67, gpus=gpus))
    monkeypatch.setattr(columns, "COLUMNS", (*columns.COLUMNS, GPUS))
    return tmp_path


def printed(root: Path, capsys: pytest.CaptureFixture[str], *, as_json: bool, only: str) -> str:
    print_runs(archived=False, chosen=only, runs=str(root), as_json=as_json)
    return capsys.readouterr().out


def test_one_declaration_adds_a_column_to_text_json_and_filters(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "0,1     " in printed(root, capsys, as_json=False, only="gpus:0")
    listed = json.loads(printed(root, capsys, as_json=True, only="gpus=7"))["runs"]
    assert [(run["id"], run["gpus"]) for run in listed] == [("two", "7")]


def test_one_declaration_adds_a_column_to_the_screen(root: Path) -> None:
    runs = list_runs(root)
    row = "".join(span.text for span in _row(runs[0], 120, Widths.of(runs)))
    assert runs[0].state.gpus is not None
    assert f"  {runs[0].state.gpus}".ljust(10) in row


def test_the_json_of_a_run_has_every_key_once() -> None:
    keys = [column.key for column in columns.COLUMNS if column.key is not None]
    names = [name for column in columns.COLUMNS for name in (column.name, *column.aliases)]
    assert len(set(keys)) == len(keys)
    assert len(set(names)) == len(names)


def test_a_list_has_the_duration_of_its_runs_as_json(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = json.loads(printed(root, capsys, as_json=True, only="duration:67s"))["runs"]
    assert [run["duration_s"] for run in listed] == [67, 67]


def test_a_run_without_steps_validates_only() -> None:
    assert columns.format_step(None, 0) == "val only"
    assert columns.format_step(3, None) == "3/–"
    assert columns.format_step(None, 40) == "–/40"
