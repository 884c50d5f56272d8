"""Metrics of runs as tables: missing values and NaN differ, and numbers read back as they were."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.base.parquet import pq
from engine.base.tables import Form
from engine.report.metric_table import (
    MetricTable,
    find_form,
    long_table,
    text_of,
    wide_table,
    write_table,
)
from engine.run.history.columns import Columns
from engine.run.history.train_log import Step

Logged = Sequence[Mapping[str, float | None]]
A: Logged = [{"x": 0.5, "y": 1.0}, {"x": None}, {"y": 1e-7}]
B: Logged = [{"z": 3.0}]
WIDE = "run,step,x,y,z\na,1,0.5,1.0,\na,2,NaN,,\na,3,,1e-07,\nb,1,,,3.0\n"


def history(steps: Logged) -> Columns:
    columns = Columns()
    for number, metrics in enumerate(steps, start=1):
        columns.add(Step(number, 1, 0.0, dict(metrics)))
    return columns


SOURCES = [("a", history(A)), ("b", history(B))]


def text(table: MetricTable, form: Form = "csv") -> str:
    return "".join(text_of(table, form))


def test_a_wide_table_has_empty_cells_for_what_was_not_logged() -> None:
    assert text(wide_table(SOURCES)) == WIDE


def test_the_name_of_a_metric_is_without_secrets() -> None:
    logged = history([{"val/https://me:pw1pw1@h/a": 0.5, "val/https://me:pw2pw2@h/a": 0.25}])
    wide, long = text(wide_table([("a", logged)])), text(long_table([("a", logged)]))
    assert wide == "run,step,val/https://…@h/a,val/https://…@h/a (2)\na,1,0.5,0.25\n"
    assert "a,1,val/https://…@h/a,0.5\n" in long and "pw" not in long


def test_a_long_table_has_a_row_for_each_value_and_for_nan() -> None:
    lines = text(long_table(SOURCES)).splitlines()
    assert lines == [
        "run,step,metric,value",
        "a,1,x,0.5",
        "a,2,x,NaN",
        "a,1,y,1.0",
        "a,3,y,1e-07",
        "b,1,z,3.0",
    ]


def test_chosen_metrics_are_the_columns_also_by_the_name_of_a_dashboard() -> None:
    sources = [("a", history([{"actor/pg_loss": 2.0, "x": 1.0}]))]
    assert (
        text(wide_table(sources, ["train/policy_loss"])) == "run,step,train/policy_loss\na,1,2.0\n"
    )


def test_steps_without_a_chosen_metric_have_no_row() -> None:
    assert text(wide_table(SOURCES, ["y"])) == "run,step,y\na,1,1.0\na,3,1e-07\n"


def test_parquet_keeps_null_and_nan_apart(tmp_path: Path) -> None:
    write_table(wide_table(SOURCES), tmp_path / "t.parquet", "parquet")
    column = pq.read_table(tmp_path / "t.parquet").column("x").to_pylist()
    assert column[0] == 0.5 and math.isnan(column[1]) and column[2:] == [None, None]


def test_json_leaves_missing_values_out() -> None:
    assert wide_table([("a", history(A))]).to_json()[1:] == [
        {"run": "a", "step": 2, "x": None},
        {"run": "a", "step": 3, "y": 1e-7},
    ]


def test_markdown_escapes_what_divides_cells() -> None:
    table = wide_table([("a|b", history([{"x": 1.0}]))])
    assert (
        text(table, "markdown") == "| run | step | x |\n| --- | --- | --- |\n| a\\|b | 1 | 1.0 |\n"
    )


def test_an_unknown_metric_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"'reward/men' .*did you mean 'reward/mean'"):
        wide_table([("a", history([{"reward/mean": 1.0}]))], ["reward/men"])


def test_runs_without_steps_are_named() -> None:
    with pytest.raises(UsageError, match="a, b: no step was logged"):
        long_table([("a", Columns()), ("b", Columns())])


def test_a_run_without_steps_beside_another_has_no_rows() -> None:
    assert len(wide_table([("a", Columns()), ("b", history(B))])) == 1


def test_an_unknown_suffix_is_refused() -> None:
    with pytest.raises(UsageError, match=r"t\.xlsx: .*\.csv, \.parquet, \.md"):
        find_form(Path("t.xlsx"))


NUMBERS = st.floats(-1e99, 1e99) | st.none()
NAMES = st.from_regex(r"[abc,|\"' \\][abc,|\"' =\\]{0,5}", fullmatch=True)
"""None that a spreadsheet would compute: these get an apostrophe."""


@given(st.lists(st.dictionaries(NAMES, NUMBERS, min_size=1), min_size=1, max_size=6))
def test_a_csv_table_reads_back_as_what_was_logged(steps: Logged) -> None:
    table = csv.DictReader(io.StringIO(text(wide_table([("a", history(steps))]))))
    read = [
        {
            name: None if cell == "NaN" else float(cell)
            for name, cell in row.items()
            if name not in ("run", "step") and cell != ""
        }
        for row in table
    ]
    assert read == [dict(step) for step in steps]


def test_no_value_of_a_table_is_taken_from_another_run() -> None:
    columns = wide_table(SOURCES).columns
    assert np.flatnonzero(~columns["z"].missing).tolist() == [3]
