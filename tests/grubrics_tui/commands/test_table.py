"""``table`` prints CSV, writes files, and replaces none unasked."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from grubrics_tui.cli import app
from tests.engine.logs.formats.samples import verl_line, write
from tests.grubrics_tui.sample_run import SampleRun


def run_command(*words: str) -> Result:
    return CliRunner().invoke(app, ["table", *words])


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run, and a log of verl."""
    monkeypatch.chdir(tmp_path)
    SampleRun.create(Path("runs"), "night").grow(2)
    write(tmp_path / "day.log", verl_line(1, {"reward/mean": 0.5}))


@pytest.mark.row("H36")
def test_runs_and_logs_are_in_one_table_with_the_names_of_metrics() -> None:
    done = run_command("nig", "day.log", "--metric", "reward/mean")
    assert done.exit_code == 0
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [(row["run"], row["step"]) for row in rows] == [
        ("night", "1"),
        ("night", "2"),
        ("day.log", "1"),
    ]
    printed = CliRunner().invoke(app, ["metrics", "night", "reward/mean", "--json"]).stdout
    values = [[int(row["step"]), float(row["reward/mean"])] for row in rows[:2]]
    assert json.loads(printed)["series"]["reward/mean"] == values


def test_a_cell_that_a_spreadsheet_would_compute_is_quoted_as_text() -> None:
    names = ["=cmd|'x'!A0", "+1+1", "-x", "@SUM(A1)"]
    write(Path("day.log"), json.dumps({"step": 1, "loss": -1.5, **dict.fromkeys(names, 1)}))
    [head, line] = csv.reader(run_command("day.log").stdout.splitlines())
    assert {f"'{name}" for name in names} <= {*head}
    assert "-1.5" in line


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".md"])
def test_a_file_is_replaced_only_when_asked(suffix: str) -> None:
    file = Path(f"t{suffix}")
    file.write_text("mine")
    refused = run_command("night", "-o", str(file))
    assert "already exists" in str(refused.exception) and file.read_text() == "mine"
    assert run_command("night", "-o", str(file), "--force").exit_code == 0
    assert file.read_bytes() != b"mine"


def test_a_run_without_steps_or_without_the_metric_is_named() -> None:
    SampleRun.create(Path("runs"), "empty")
    done = run_command("night", "empty", "day.log", "--metric", "reward/std")
    assert {row["run"] for row in csv.DictReader(done.stdout.splitlines())} == {"night"}
    assert "warning: empty is not in the table: no step was logged yet" in done.stderr
    assert "warning: day.log is not in the table: no step has reward/std" in done.stderr
    answer = json.loads(run_command("night", "empty", "--json").stdout)
    assert [*answer["left_out"]] == ["empty"]
    assert json.loads(run_command("night", "--json").stdout)["left_out"] == {}


def test_a_table_of_no_steps_at_all_is_refused() -> None:
    SampleRun.create(Path("runs"), "empty")
    assert "empty: no step was logged yet (" in str(run_command("empty").exception)
